#!/usr/bin/env bash
# Installs the C library below a directory: header, static and shared library, and the file for
# pkg-config.
#
#     install.sh PREFIX [BUILT]
#
# BUILT is a directory with libfullpipe.a and libfullpipe.so; without it the libraries are built
# here. With DESTDIR set everything is put below it, and the files still name PREFIX. For systems
# with ELF libraries, such as Linux.
set -euo pipefail

[ $# = 1 ] || [ $# = 2 ] || { echo "install.sh: write install.sh PREFIX [BUILT]" >&2; exit 2; }
case $1 in
    /*) prefix=$1 ;;
    *) echo "install.sh: PREFIX must be an absolute path, and '$1' is none" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
if [ $# = 2 ]; then
    built=$2
else
    (cd "$here" && cargo build --release -p fullpipe-capi)
    built=$(cd "$here" && cargo metadata --format-version 1 --no-deps |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi
[ -e "$built/libfullpipe.so" ] || { echo "install.sh: there is no $built/libfullpipe.so" >&2; exit 2; }

version=$(sed -n 's/^#define FULLPIPE_VERSION "\(.*\)"$/\1/p' "$here/include/fullpipe.h")
interface=${version%.*}
root=${DESTDIR:-}$prefix
mkdir -p "$root/include" "$root/lib/pkgconfig"
install -m 644 "$here/include/fullpipe.h" "$root/include"
install -m 644 "$built/libfullpipe.a" "$root/lib"
install -m 755 "$built/libfullpipe.so" "$root/lib/libfullpipe.so.$version"
ln -sf "libfullpipe.so.$version" "$root/lib/libfullpipe.so.$interface"
ln -sf "libfullpipe.so.$interface" "$root/lib/libfullpipe.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/fullpipe.pc.in" \
    >"$root/lib/pkgconfig/fullpipe.pc"
