#!/usr/bin/env bash
# What the tests of pages need: Chromium and its driver, from the packages of Debian; as root they are installed.
set -euo pipefail
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "the tests of pages need chromium and chromedriver: apt-get install chromium chromium-driver" >&2
    exit 1
fi
apt-get update --quiet --quiet
DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes --no-install-recommends chromium chromium-driver
