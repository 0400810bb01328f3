//! BBRv3 for a stock Linux kernel, in C (`c/bbr3.h`), held equal to `fullpipe_cc`'s `bbr3-linux` by
//! the twin test.
