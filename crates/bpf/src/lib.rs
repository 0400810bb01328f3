//! BBRv3 in a stock Linux kernel.
//!
//! - `c/bbr3.h` and the headers that it includes: the algorithm in C, without a type of the kernel.
//!   `tests/suite/twin` compiles them natively and holds them equal to `fullpipe_cc`'s
//!   `bbr3-linux`, and with the amendments of `bbr3x` to `bbr3x-linux`.
//! - `c/bbr3.bpf.c`: the same as a TCP congestion control by BPF struct_ops.
//! - `c/use.bpf.c`: gives connections of a cgroup a congestion control.
//! - `kernel`, with the feature of that name: loads them, shows them and takes them out again.
//! - `arguments`: the command line of `fullpipe kernel` and of `fullpipe-bbr3` (feature `loader`),
//!   the program of the packages.

#[cfg(feature = "arguments")]
pub mod arguments;

#[cfg(all(feature = "kernel", target_os = "linux"))]
pub mod kernel;
