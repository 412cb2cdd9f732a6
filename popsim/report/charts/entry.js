export { View, parse } from "vega";
export { expressionInterpreter } from "vega-interpreter";
export { compile } from "vega-lite";
