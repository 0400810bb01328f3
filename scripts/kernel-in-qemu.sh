#!/usr/bin/env bash
# Runs fullpipe on one of Debian's kernels, in QEMU, in virtual time: neither KVM nor root is needed
# but to install QEMU, and a busy machine changes nothing but how long it takes (some four times the
# virtual time).
#
#   cargo build --release -p fullpipe --features kernel
#   scripts/kernel-in-qemu.sh                      # 6.12: loads the program, compares it with the kernel's own
#   KERNEL=7.1 scripts/kernel-in-qemu.sh 'fullpipe kernel load --pin; fullpipe kernel status'     # a script of one's own
#   KERNEL=list scripts/kernel-in-qemu.sh          # the kernels that the archive has now
#   cargo test --release -p fullpipe-emu --test live --no-run                      # the tests of netem: says where
#   FULLPIPE=target/release/deps/live-HASH scripts/kernel-in-qemu.sh 'NETEM=needed fullpipe --include-ignored netem'
#   KERNEL=6.1 scripts/kernel-in-qemu.sh 'fullpipe kernel load'                    # one that is too old: is refused
#   CLOCK=real FULLPIPE=... scripts/kernel-in-qemu.sh 'LIFECYCLES=20 fullpipe --include-ignored lifecycle'
#
# CLOCK=real is less than half the work, for what takes long and measures nothing. On a busy machine
# the guest's clock may then jump, which its kernel says, and a wait fail.
#
# Needs Debian 12 or later, qemu-system-x86, xz, zstd, cpio and dpkg. FULLPIPE names another binary
# than target/release/fullpipe. Kernels come from Debian's stable releases with their security and
# backports archives, from unstable and from experimental, and are not installed: everything is
# downloaded to and built in a directory that goes with it.
set -euo pipefail

# 25 s, so that the ProbeRTTs of both bbrs (one in 5 s, one in 10 s) have their share.
compare='fullpipe compare --stack linux --cc bbr3,linux:bbr,linux:cubic --rate 50mbit --rtt 20ms --duration 25s'
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

die() { printf 'kernel-in-qemu.sh: %s\n' "$*" >&2; exit 1; }
for tool in qemu-system-x86_64 cpio xz zstd dpkg-deb apt-get; do
    command -v "$tool" >/dev/null || die "$tool is not here (Debian: apt-get install qemu-system-x86 cpio xz-utils zstd)"
done
[ "$kernel" = list ] || [ -x "$fullpipe" ] || die "no $fullpipe: cargo build --release -p fullpipe --features kernel"

work=$(mktemp -d)
machine=
stop() { [ -z "$machine" ] || kill "$machine" 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT
trap 'exit 130' INT TERM
cd "$work"

# Lists of this script's own: what the machine installs from stays as it is.
mkdir -p lists/partial cache/archives/partial
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bookworm trixie trixie-backports sid experimental; do
    echo "deb [arch=amd64 signed-by=$keys] http://deb.debian.org/debian $suite main"
done >sources.list
for suite in bookworm-security trixie-security; do
    echo "deb [arch=amd64 signed-by=$keys] http://deb.debian.org/debian-security $suite main"
done >>sources.list
own=(-o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/lists"
    -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${own[@]}" update -qq || die "cannot read the lists of deb.debian.org"
images() {
    apt-cache "${own[@]}" search --names-only "^linux-image-$1[0-9+deb.-]*-cloud-amd64(-unsigned)?\$" |
        cut -d' ' -f1 | sort -V
}
if [ "$kernel" = list ]; then
    images '[0-9]' | sed 's/^linux-image-//'
    exit
fi
# Newer ones are in several packages, not all of which stay in the archive as long as the image.
image='' parts=''
for candidate in $(images "${kernel//./\\.}\\." | tac); do
    parts=$(apt-cache "${own[@]}" show "$candidate" | sed -n 's/^Depends: //p' |
        grep -oE 'linux-(binary|modules)-[^ ,]+' | sort -u || true)
    # shellcheck disable=SC2086 # They are several words.
    if apt-get "${own[@]}" download --print-uris "$candidate" $parts >/dev/null 2>&1; then
        image=$candidate
        break
    fi
done
[ -n "$image" ] || die "the archive has no whole linux-image-$kernel.*-cloud-amd64: KERNEL=list shows what it has"
# shellcheck disable=SC2086 # They are several words.
apt-get "${own[@]}" download -qq "$image" $parts busybox-static || die "cannot download $image and busybox-static"
for package in *.deb; do dpkg-deb -x "$package" packages; done
[ ! -d packages/usr/lib/modules ] || { mkdir -p packages/lib; mv packages/usr/lib/modules packages/lib/; }

root=initramfs
mkdir -p $root/bin $root/lib64 $root/proc $root/sys $root/dev $root/run $root/tmp $root/modules
cp "$(find packages -path "*bin/busybox" | head -1)" $root/bin/busybox
strip -o $root/bin/fullpipe "$fullpipe"
ldd "$fullpipe" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
# In the order in which they need each other: a module's dependencies come before it.
order=0
unpacked() { case $1 in *.zst) zstd -dcq "$1" ;; *) xz -dcf "$1" ;; esac }
add() {
    local name=$1 file depends
    file=$(find packages/lib/modules -name "${name//_/[_-]}.ko*" | head -1)
    [ -n "$file" ] || return 0 # Built in.
    depends=$(unpacked "$file" | tr '\0' '\n' | sed -n 's/^depends=//p')
    for other in ${depends//,/ }; do add "$other"; done
    ls $root/modules | grep -q -- "-$name.ko" && return 0
    order=$((order + 1))
    unpacked "$file" >"$root/modules/$(printf %02d $order)-$name.ko"
}
for module in "${modules[@]}"; do add "$module"; done

printf '%s\n' "$script" >$root/script
cat >$root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox mkdir -p /bb && /bin/busybox --install -s /bb
export PATH=/bin:/bb
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs run /run; mount -t tmpfs tmp /tmp; mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
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

# In /boot, or beside the modules.
image=$(find packages -name 'vmlinuz*' -type f | head -1)
[ -n "$image" ] || die "there is no vmlinuz in ${parts:-the package}"
# One nanosecond an instruction, and no time passes while nothing is to do.
clock=(-icount "shift=0,sleep=off")
[ "${CLOCK:-virtual}" != real ] || clock=()
qemu-system-x86_64 -accel tcg "${clock[@]}" -cpu max -smp 1 -m 2048 -display none -nodefaults \
    -serial file:console -no-reboot -kernel "$image" -initrd initrd \
    -append "console=ttyS0 panic=-1 mitigations=off quiet" &
machine=$!
touch console
tail -f --pid=$machine -n +1 console | sed -u 's/\r//g' || true
wait $machine
machine=
grep -q '^== done' console || die "the machine ended before its script did"
! grep -q '^== failed' console || die "the script failed"
