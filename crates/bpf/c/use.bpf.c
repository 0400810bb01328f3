// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * Gives connections of a cgroup a congestion control, also of chosen ports alone: a program of BPF_PROG_TYPE_SOCK_OPS.
 * build.rs makes an object of its own of it, and src/kernel/cgroup attaches it.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* linux/bpf.h, and what setsockopt() takes. */
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB 4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define SOL_TCP 6
#define TCP_CONGESTION 13

#define MAX_PORTS 16

/* Set by the loader: src/kernel/cgroup/settings.rs. */
struct use {
	/* The name of the congestion control, and zeros. */
	char algorithm[16];
	/* None: every port. */
	__u32 n_ports;
	__u16 ports[MAX_PORTS];
};

const volatile struct use use SEC(".rodata.use") = { 0 };

/* For status: the loader reads it. */
struct given {
	/* Connections that were given it, and those that TCP gave nothing. */
	__u64 given;
	__u64 refused;
};

struct given given SEC(".data.given");

static bool is_for(__u32 port)
{
	for (__u32 i = 0; i < MAX_PORTS; i++)
		if (i < use.n_ports && use.ports[i] == port)
			return true;
	return false;
}

/* A program that chose for its socket, or for the socket that listens, knows why. */
static bool has_chosen(struct bpf_sock *sk)
{
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	return !tp || BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)tp, icsk_ca_setsockopt);
}

/*
 * The handshake is over, and TCP is about to start the algorithm: what is chosen now is started with the first
 * round trip known. Later choices of the program, and a route's that is locked, stand.
 */
SEC("sockops")
int fullpipe_use(struct bpf_sock_ops *ctx)
{
	char name[sizeof(use.algorithm)];

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (use.n_ports && !is_for(ctx->local_port) && !is_for(bpf_ntohl(ctx->remote_port)))
		return 1;
	if (has_chosen(ctx->sk))
		return 1;
	for (__u32 i = 0; i < sizeof(name); i++)
		name[i] = use.algorithm[i];
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		__sync_fetch_and_add(&given.refused, 1);
	else
		__sync_fetch_and_add(&given.given, 1);
	return 1;
}
