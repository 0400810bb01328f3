#!/usr/bin/env bash
# Proves that README's commands pass on a bare machine: makes a Debian that has nothing but what
# README asks for, and runs README's first command and ./test.sh in it.
#
#   scripts/bare.sh                  # as an ordinary user, then as root
#   scripts/bare.sh --user           # one of the two
#   scripts/bare.sh --root
#   scripts/bare.sh --keep           # keeps the bare machine's files, and says where they are
#   scripts/bare.sh --if-possible    # without root or apt-get: says so, and ends with exit code 0
#
# The ordinary user has no /dev/net/tun. Root has it, in the same folder, with what the user built
# there. Both have a folder in PATH that the user may not read. What is tried is the last commit,
# without a target folder, and with none of the caller's crates. The network is the caller's.
#
# Ends with 1 if a run fails, and prints the last lines of what it said; all of it is in
# target/bare. BARE_FIRST and BARE_TESTS are other commands in place of the two.
#
# Needs root on Debian, git, rustup, and 12 GB below TMPDIR or else /var/tmp; installs mmdebstrap.
# The release and its archive are those of the machine's own apt, and so are its proxy and
# certificates. The bare machine is in a temporary directory; mounts and processes are in
# namespaces, and end with this script however it ends. What a kill -9 leaves on the disk, the next
# call removes.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)
logs=$here/target/bare
first=${BARE_FIRST:-cargo run --release -- compare --stack noq}
tests=${BARE_TESTS:-./test.sh}
packages=gcc,libc6-dev,python3,ca-certificates,git
gigabytes=12
# The first folder is one that the user may not read.
path=/root/.cargo/bin:/opt/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

die() { printf 'bare.sh: %s\n' "$*" >&2; exit 1; }
say() { printf '%5d s  %s\n' "$SECONDS" "$*"; }

work='' job='' keep='' optional='' users=()
while [ $# -gt 0 ]; do
    case "$1" in
        --user) users+=(tester) ;;
        --root) users+=(root) ;;
        --keep) keep=1 ;;
        --if-possible) optional=1 ;;
        --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
        *) echo "bare.sh: '$1' is no option (see scripts/bare.sh --help)" >&2; exit 2 ;;
    esac
    shift
done
# In this order, whatever the order of the options is.
case "${users[*]}" in
    "" | *tester*root* | *root*tester*) users=(tester root) ;;
esac

impossible() {
    [ -z "$optional" ] || { echo "not run: $*"; exit 0; }
    echo "not run: $*" >&2
    exit 2
}
{ [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || impossible "it needs root and apt-get"
unshare --mount --pid --fork --mount-proc true 2>/dev/null ||
    impossible "root may make no namespaces here (a container needs --privileged)"

# Whose process has ended. The lock tells that of another container, whose numbers are others.
is_stale() { [ -O "$1" ] && ! kill -0 "$2" 2>/dev/null && flock --nonblock "$1/lock" true; }

# Again while a process that was killed is still ending.
remove() {
    for _ in {1..50}; do
        rm -rf --one-file-system -- "$1" 2>/dev/null && return
        sleep 0.2
    done
    rm -rf --one-file-system -- "$1"
}

remove_stale() {
    local old pid
    for old in "$1"/fullpipe-bare.[0-9]*; do
        pid=${old##*/fullpipe-bare.}
        if [ -d "$old" ] && [ ! -L "$old" ] && is_stale "$old" "${pid%%.*}"; then
            say "removing what was left in $old"
            remove "$old"
        fi
    done
}

stop() {
    trap '' INT TERM HUP
    [ -z "$job" ] || { kill -KILL "$job" 2>/dev/null || true; wait "$job" 2>/dev/null || true; }
    [ -n "$work" ] || return 0
    if [ -n "$keep" ] && [ -d "$root/srv/fullpipe" ]; then
        mv "$work" "${work/bare./bare-kept.}"
        say "kept: ${root/bare./bare-kept.}"
    else
        remove "$work"
    fi
}

# Becomes a command in namespaces of its own, which end with it, and it with this script. It gets no
# file that is open here: mmdebstrap fails where its own have numbers above 9.
become() {
    local fd
    for fd in "/proc/$BASHPID/fd"/*; do
        fd=${fd##*/}
        [ "$fd" -le 2 ] || eval "exec $fd>&-"
    done
    exec setsid setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child --mount-proc "$@"
}

# alone LOG COMMAND...
alone() {
    local log=$1 status=0
    shift
    become "$@" >>"$log" 2>&1 &
    job=$!
    wait "$job" || status=$?
    job=''
    return "$status"
}

# Inside the namespaces: mounts what a machine has, makes the directory the root of everything, and
# runs a command as a user. Not chroot, in which a user may make no namespaces.
inside() {
    local root=$1 user=$2 node home
    shift 2
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc -o nosuid,nodev,noexec proc proc
    mount -t sysfs -o nosuid,nodev,noexec sysfs sys
    mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs run
    mount -t tmpfs -o nosuid,mode=755 tmpfs dev
    mkdir dev/pts dev/shm
    mount -t devpts -o nosuid,noexec,newinstance,gid=5,mode=620,ptmxmode=666 devpts dev/pts
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs dev/shm
    for node in null zero full random urandom tty; do
        touch "dev/$node"
        mount --bind "/dev/$node" "dev/$node"
    done
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    ln -s /proc/self/fd/0 dev/stdin
    ln -s /proc/self/fd/1 dev/stdout
    ln -s /proc/self/fd/2 dev/stderr
    if [ "$user" = root ]; then
        mkdir dev/net
        if [ -e /dev/net/tun ]; then
            touch dev/net/tun
            mount --bind /dev/net/tun dev/net/tun
        else
            # Opening it loads the kernel's module, where there is one.
            mknod -m 666 dev/net/tun c 10 200 || rmdir dev/net
        fi
    fi
    pivot_root . .
    umount -l .
    cd /
    home=$(getent passwd "$user" | cut -d: -f6)
    # A login's limit, and no signal ignored, whatever the caller's are.
    ulimit -Sn 1024
    setpriv --reuid "$user" --regid "$user" --init-groups env -i --default-signal \
        HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash "$@"
}

# inside_as LOG USER COMMAND...
inside_as() {
    local log=$1
    shift
    alone "$log" bash -euo pipefail -c "$(declare -f inside); inside \"\$@\"" bare "$root" "$@"
}

# A step of what comes before the runs.
must() {
    "$@" && return
    say "failed; the last lines of $logs/make.log:"
    tail -n 40 "$logs/make.log"
    exit 1
}
logged() { "$@" >>"$logs/make.log" 2>&1; }

# The distribution's own archive, as the machine's apt has it; nobody else's.
sources() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' \
        'Created-By: Packages' | sort -u | awk -v release="$release" '
        $2 ~ "^" release "(-updates|-security)?$" && $3 == "main" && /(Debian|Ubuntu)$/ {
            print "deb", $1, $2, $3
        }'
}

make_root() {
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    local apt=(apt-get -o DPkg::Lock::Timeout=300) archive option options=()
    archive=$(sources)
    if [ -z "$archive" ] || ! command -v mmdebstrap >/dev/null; then
        must logged "${apt[@]}" update
        archive=$(sources)
    fi
    command -v mmdebstrap >/dev/null || DEBIAN_FRONTEND=noninteractive \
        must logged "${apt[@]}" install -y --no-install-recommends mmdebstrap
    [ -n "$archive" ] || die "apt knows no archive of the release '$release'"
    while read -r option; do
        options+=(--aptopt="$option")
    done < <(apt-config dump | grep -E '^Acquire::(Check-|Retries|https?::)')
    # The hooks run outside of the root, which is their $1.
    # shellcheck disable=SC2016
    must alone "$logs/make.log" mmdebstrap --mode=root --format=directory --variant=minbase \
        --include="$packages" "${options[@]}" \
        --customize-hook='
            set -e
            own=/usr/local/share/ca-certificates
            [ ! -d "$own" ] || cp -rL "$own/." "$1$own"
            chroot "$1" update-ca-certificates
            chroot "$1" useradd --create-home --shell /bin/bash tester
            mkdir -p "$1/root/.cargo/bin" && chmod 700 "$1/root"
            cp -L --remove-destination /etc/resolv.conf /etc/hosts "$1/etc"' \
        "$release" "$root" "$archive"
    say "made: Debian $release, $(size "$root")"
}

size() { du -sh --one-file-system "$1" | cut -f1; }

# Sets where the caller's rustup and its toolchains are: below sudo, those of who called it.
find_rust() {
    local home=${HOME:-/root}
    [ -z "${SUDO_USER:-}" ] || [ -e "$home/.rustup" ] ||
        home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    rustup_home=${RUSTUP_HOME:-$home/.rustup}
    rustup=${CARGO_HOME:-$home/.cargo}/bin/rustup
    [ -x "$rustup" ] || rustup=$(command -v rustup) || die "rustup is not here"
}

# The toolchain that rust-toolchain.toml names, without its documentation. Where the caller does not
# have it, rustup installs it. The proxies are those that rustup-init makes.
copy_rust() {
    local channel from to name
    channel=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' "$here/rust-toolchain.toml")
    mkdir -p "$root/opt/cargo/bin" "$root/opt/rustup/toolchains"
    cp -L "$rustup" "$root/opt/cargo/bin/rustup"
    for name in cargo cargo-clippy cargo-fmt clippy-driver rustc rustdoc rustfmt; do
        ln -s rustup "$root/opt/cargo/bin/$name"
    done
    for from in "$rustup_home/toolchains/$channel-$(uname -m)"-*; do
        [ -d "$from" ] || continue
        to=$root/opt/rustup/toolchains/${from##*/}
        mkdir "$to"
        tar -C "$from/" --exclude=./share/doc -cf - . | tar -C "$to" -xf -
    done
    give_to tester
    # shellcheck disable=SC2016
    must inside_as "$logs/make.log" tester "${settings[@]}" \
        bash -c 'rustup set profile minimal && rustup default "$1"' bash "$channel"
    say "Rust $channel, $(size "$root/opt/rustup")"
}

# The last commit, of whoever owns the repository.
copy_tree() {
    printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
    local git=(env GIT_CONFIG_GLOBAL="$work/gitconfig" git)
    # Not the files of the repository under a second name, whose owner would change with them.
    "${git[@]}" clone --quiet --no-local "$here" "$root/srv/fullpipe"
    say "the tree of $("${git[@]}" -C "$root/srv/fullpipe" log -1 --format='%h, %s')"
    [ -z "$("${git[@]}" -C "$here" --no-optional-locks status --porcelain)" ] ||
        say "what is not committed is not in it"
}

# What a machine needs for its network. A file has to be inside as well.
settings=()
choose_settings() {
    settings=(PATH="$path" TERM="${TERM:-dumb}" RUSTUP_HOME=/opt/rustup CARGO_HOME=/opt/cargo)
    local name
    for name in {http,https,all,no}_proxy {HTTP,HTTPS,ALL,NO}_PROXY; do
        [ -z "${!name:-}" ] || settings+=("$name=${!name}")
    done
    for name in PIP_CERT SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE \
        GIT_SSL_CAINFO CARGO_HTTP_CAINFO; do
        [ -z "${!name:-}" ] || [ ! -e "$root${!name}" ] || settings+=("$name=${!name}")
    done
}

give_to() {
    must inside_as "$logs/make.log" root "${settings[@]}" \
        chown -Rh "$1:" /srv/fullpipe /opt/cargo /opt/rustup
}

failed=
# run USER NAME COMMAND
run() {
    local log=$logs/$1-$2.log before=$SECONDS status=0
    say "as $1: $3"
    # So that the user may open /dev/stdout as well.
    install -m 666 /dev/null "$log"
    # shellcheck disable=SC2016
    inside_as "$log" "$1" "${settings[@]}" \
        bash -c 'cd /srv/fullpipe && eval "$1"' bash "$3" || status=$?
    chmod 644 "$log"
    if [ "$status" = 0 ]; then
        say "passed after $((SECONDS - before)) s"
        sed -nE '/^(skipped|[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$)/s/^/         /p' "$log"
    else
        failed=1
        say "failed after $((SECONDS - before)) s with exit code $status; the last lines of $log:"
        tail -n 40 "$log"
    fi
}

for folder in "$here/target" "$logs"; do
    # Of the repository's owner, who builds there.
    [ -d "$folder" ] || { mkdir "$folder" && chown --reference="$here" "$folder"; }
done
exec 8>"$logs/lock"
flock --nonblock 8 || die "another call writes to $logs"
rm -f "$logs"/*.log
command -v git >/dev/null || die "git is not here"
find_rust
disk=$(realpath "${TMPDIR:-/var/tmp}")
[ -d "$disk" ] || die "there is no directory $disk"
remove_stale "$disk"
free=$(df --output=avail --block-size=1G "$disk" | tail -n 1)
[ "$free" -ge "$gigabytes" ] ||
    die "$disk has ${free// /} GB, and $gigabytes are needed (TMPDIR names another directory)"

trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
work=$(mktemp -d "$disk/fullpipe-bare.$$.XXXXXX")
# What apt downloads, it downloads as a user of its own.
chmod 711 "$work"
root=$work/root
exec 9>"$work/lock"
flock 9

say "making a bare Debian in $work"
make_root
choose_settings
copy_tree
copy_rust
for user in "${users[@]}"; do
    give_to "$user"
    run "$user" first "$first"
    run "$user" tests "$tests"
done
say "the bare machine has $(size "$work") now"
[ -z "$failed" ] || exit 1
say "all passed"
