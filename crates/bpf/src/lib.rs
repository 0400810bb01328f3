//! BBRv3 in a stock Linux kernel.
//!
//! - `c/bbr3.h` and the headers that it includes: the algorithm in C, without a type of the kernel.
//!   `tests/twin` compiles them natively and holds them equal to `fullpipe_cc`'s `bbr3-linux`.
//! - `c/bbr3.bpf.c`: the same as a TCP congestion control by BPF struct_ops.
//! - `kernel`, with the feature of that name: loads it, shows it and takes it out again.

#[cfg(all(feature = "kernel", target_os = "linux"))]
pub mod kernel;
