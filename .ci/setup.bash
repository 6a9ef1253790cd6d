# Sourced by ./demo and ./check: headings with times, and the packages they need.

# Tools of the user's own Rust, where a login shell has not put them on the path.
if ! command -v cargo >/dev/null && [ -r "$HOME/.cargo/env" ]; then
    # shellcheck disable=SC1091
    . "$HOME/.cargo/env"
fi

heading() {
    printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}

# missing NEED...: the packages behind those needs that are not met here.
# A need is command=package, file:PATH=package or python:MODULE=package.
missing() {
    local need what
    for need in "$@"; do
        what=${need%%=*}
        case $what in
            file:*) compgen -G "${what#file:}" >/dev/null || printf '%s\n' "${need#*=}" ;;
            # The system's Python too: another one on the path does not see its packages.
            python:*) python3 -c "import ${what#python:}" 2>/dev/null ||
                /usr/bin/python3 -c "import ${what#python:}" 2>/dev/null ||
                printf '%s\n' "${need#*=}" ;;
            *) command -v "$what" >/dev/null || printf '%s\n' "${need#*=}" ;;
        esac
    done | sort -u
}

# install PACKAGE...: by apt-get, as root or with sudo; 1 if that is not possible.
install() {
    local as_root=()
    if ! command -v apt-get >/dev/null; then
        printf 'Missing: %s. This system has no apt-get: install them its own way (these are Debian names).\n' "$*" >&2
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        # A password can only be typed at a terminal.
        if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            as_root=(sudo)
        else
            printf 'Missing: %s. As root, type:\n    apt-get install %s\n' "$*" "$*" >&2
            return 1
        fi
    fi
    printf 'Installing %s\n' "$*"
    # The lists of a fresh system are empty or old.
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# What every build needs. libgomp comes with g++, libc's headers too.
# shellcheck disable=SC2034,SC2191 # used by the scripts that source this; no subscripts
build_needs=(cc=gcc g++=g++ cmake=cmake make=make)

set_up() {
    local packages
    mapfile -t packages < <(missing "$@")
    if [ ${#packages[@]} -gt 0 ]; then
        install "${packages[@]}"
    fi
}

need_cargo() {
    if ! command -v cargo >/dev/null; then
        printf 'cargo is missing: nearfar needs Rust 1.88 or later, see https://rustup.rs\n' >&2
        return 1
    fi
}

# build_workloads [NAME...]: all or some of them, into target/workloads, where the tests and the benchmarks look.
build_workloads() {
    local options=() targets=()
    if [ $# -gt 0 ]; then
        targets=(--target "$@")
    fi
    if [ "$(uname -m)" = x86_64 ] && ! grep -qw avx2 /proc/cpuinfo; then
        options+=(-DNEARFAR_WORKLOADS_AVX2=OFF)
    fi
    cmake -S workloads -B target/workloads-build -DCMAKE_BUILD_TYPE=Release "${options[@]}" >target/workloads-cmake.log ||
        { cat target/workloads-cmake.log >&2; return 1; }
    cmake --build target/workloads-build -j "$(nproc)" "${targets[@]}" >target/workloads-build.log ||
        { cat target/workloads-build.log >&2; return 1; }
}
