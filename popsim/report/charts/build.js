// Bundles the charts library into vega.min.js, which begins with its licences, and writes LICENSES.txt.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const FILE = "vega.min.js";
const { metafile } = await build({
  entryPoints: ["entry.js"], outfile: FILE, bundle: true, minify: true, format: "iife",
  globalName: "vegaCharts", target: "es2022", legalComments: "none", metafile: true,
});
const inputs = Object.entries(metafile.outputs[FILE].inputs).filter(([, part]) => part.bytesInOutput > 0);
const folders = new Set(inputs.map(([path]) => path.match(/^node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0]));
const packagesByText = new Map();
for (const folder of [...folders].filter(Boolean).sort()) {
  const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence file`);
  const text = readFileSync(`${folder}/${file}`, "utf8").trim().replaceAll("\r", "");
  packagesByText.set(text, [...(packagesByText.get(text) ?? []), `${name} ${version} (${license})`]);
}
const licenses = [...packagesByText].map(([text, names]) => `${names.join(", ")}\n\n${text}`).join("\n\n---\n\n");
if (licenses.includes("*/")) throw new Error("a licence ends the comment that holds it");
writeFileSync("LICENSES.txt", `${licenses}\n`);
writeFileSync(FILE, `/*\n${licenses}\n*/\n${readFileSync(FILE, "utf8")}`);
