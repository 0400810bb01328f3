#!/usr/bin/env bash
# Builds the documentation site, a directory of static files: the book of docs/ with the page that
# runs the lab in the browser under lab/, where web/dist is built (docs/page.md). Then checks every
# link in it.
#
#   scripts/site.sh                                # into target/site
#   scripts/site.sh DIR
#
# Needs mdbook (cargo install --locked mdbook) and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$here/target/site}")
die() { printf 'site.sh: %s\n' "$*" >&2; exit 1; }
command -v mdbook >/dev/null || die "mdbook is not here (cargo install --locked mdbook)"
[ ! -e "$out" ] || [ -e "$out/.fullpipe-site" ] || die "$out is there and is no site: it is not replaced"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$here/docs" "$work/docs"
# Pages link to files of the repository, which the site has as text.
python3 "$here/scripts/site.py" sources "$here" "$work/docs"
mdbook build --dest-dir "$work/site" "$work/docs" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
rm "$work/site/book.toml" "$work/site"/*.sh
if grep -E ' (ERROR|WARN) ' "$work/log" >&2; then die "mdbook has warned"; fi
if [ -e "$here/web/dist/index.html" ]; then
    cp -r "$here/web/dist" "$work/site/lab"
else
    mkdir "$work/site/lab"
    cp "$here/scripts/site-without-lab.html" "$work/site/lab/index.html"
    echo "site.sh: without the page: web/dist is not built" >&2
fi
python3 "$here/scripts/site.py" check "$work/site"
touch "$work/site/.fullpipe-site"
rm -rf "$out"
mkdir -p "$(dirname "$out")"
mv "$work/site" "$out"
echo "$out"
