#!/usr/bin/env bash
# Runs fullpipe on Debian's kernel 6.12, in QEMU, in virtual time: neither KVM nor root is needed
# but to install QEMU, and a busy machine changes nothing but how long it takes (some four times the
# virtual time).
#
#   cargo build --release -p fullpipe --features kernel
#   scripts/qemu-6.12.sh                           # loads the program, compares it with the kernel's own
#   scripts/qemu-6.12.sh 'fullpipe kernel load --pin; fullpipe kernel status'      # a script of one's own
#   cargo test --release -p fullpipe-emu --test live --no-run                      # the tests of netem: says where
#   FULLPIPE=target/release/deps/live-HASH scripts/qemu-6.12.sh 'NETEM=needed fullpipe --include-ignored netem'
#   KERNEL=6.1 scripts/qemu-6.12.sh 'fullpipe kernel load'                         # one that is too old: is refused
#
# Needs Debian 12 or later with its security archive, qemu-system-x86, xz, cpio and dpkg. FULLPIPE
# names another binary than target/release/fullpipe, KERNEL another version of Debian's kernels.
# Everything is downloaded to and built in a directory that goes with it.
set -euo pipefail

# 25 s, so that the ProbeRTTs of both bbrs (one in 5 s, one in 10 s) have their share.
compare='fullpipe compare --over tcp --cc bbr3,linux:bbr,linux:cubic --rate 50mbit --rtt 20ms --duration 25s'
script=${1:-"fullpipe kernel load --pin
fullpipe kernel status
fullpipe kernel unload
$compare
$compare --link netem
$compare --flows 4"}
here=$(cd "$(dirname "$0")/.." && pwd)
kernel=${KERNEL:-6.12}
fullpipe=$(realpath "${FULLPIPE:-$here/target/release/fullpipe}")
modules=(tun veth tcp_bbr sch_netem sch_fq)

die() { printf 'qemu-6.12.sh: %s\n' "$*" >&2; exit 1; }
for tool in qemu-system-x86_64 cpio xz dpkg-deb apt-get; do
    command -v "$tool" >/dev/null || die "$tool is not here (Debian: apt-get install qemu-system-x86 cpio xz-utils)"
done
[ -x "$fullpipe" ] || die "no $fullpipe: cargo build --release -p fullpipe --features kernel"

work=$(mktemp -d)
machine=
stop() { [ -z "$machine" ] || kill "$machine" 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT
trap 'exit 130' INT TERM
cd "$work"

image=$(apt-cache search --names-only '^linux-image-'"${kernel//./\\.}"'\.[0-9+deb.-]*-cloud-amd64(-unsigned)?$' |
    cut -d' ' -f1 | sort -V | tail -1)
[ -n "$image" ] || die "apt knows no linux-image-$kernel.*-cloud-amd64: apt-get update, with Debian's security archive"
apt-get download -qq "$image" busybox-static 2>/dev/null || die "cannot download $image and busybox-static"
for package in *.deb; do dpkg-deb -x "$package" packages; done

root=initramfs
mkdir -p $root/bin $root/lib64 $root/proc $root/sys $root/dev $root/run $root/tmp $root/modules
cp packages/bin/busybox $root/bin/busybox
strip -o $root/bin/fullpipe "$fullpipe"
ldd "$fullpipe" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
# In the order in which they need each other: a module's dependencies come before it.
release=$(basename packages/lib/modules/*)
order=0
add() {
    local name=$1 file depends
    file=$(find packages/lib/modules -name "${name//_/[_-]}.ko*" | head -1)
    [ -n "$file" ] || return 0 # Built in.
    depends=$(xz -dcf "$file" | tr '\0' '\n' | sed -n 's/^depends=//p')
    for other in ${depends//,/ }; do add "$other"; done
    ls $root/modules | grep -q -- "-$name.ko" && return 0
    order=$((order + 1))
    xz -dcf "$file" >"$root/modules/$(printf %02d $order)-$name.ko"
}
for module in "${modules[@]}"; do add "$module"; done

printf '%s\n' "$script" >$root/script
cat >$root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox mkdir -p /bb && /bin/busybox --install -s /bb
export PATH=/bin:/bb
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs run /run; mount -t tmpfs tmp /tmp; mount -t bpf bpf /sys/fs/bpf
for module in /modules/*; do insmod "$module" || echo "no $module"; done
[ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }
ip link set lo up
echo "== Linux $(uname -r)"
# Through a pipe: there is nobody to draw progress for.
{ sh -ex /script 2>&1 </dev/null || echo "== failed"; } | cat
echo "== done after $(cut -d' ' -f1 /proc/uptime) s"
poweroff -f
INIT
chmod +x $root/init
(cd $root && find . | cpio -o -H newc --quiet | gzip -1) >initrd

# One nanosecond an instruction, and no time passes while nothing is to do.
qemu-system-x86_64 -accel tcg -icount shift=0,sleep=off -cpu max -smp 1 -m 2048 -display none -nodefaults \
    -serial file:console -no-reboot -kernel "packages/boot/vmlinuz-$release" -initrd initrd \
    -append "console=ttyS0 panic=-1 mitigations=off quiet" &
machine=$!
touch console
tail -f --pid=$machine -n +1 console | sed -u 's/\r//g' || true
wait $machine
machine=
grep -q '^== done' console || die "the machine ended before its script did"
! grep -q '^== failed' console || die "the script failed"
