/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
#define BPF_PROG(name, args...) name(args)
