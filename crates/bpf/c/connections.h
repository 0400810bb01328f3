/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* The connections, for a user to read. */
#ifndef FULLPIPE_CONNECTIONS_H
#define FULLPIPE_CONNECTIONS_H

#include "flow.h"

/* One connection for status, as src/kernel/connection.rs reads it. */
struct connection {
	__u8 remote[16];
	__u8 local[16];
	uint64_t cwnd;
	uint64_t pacing_rate;
	uint64_t max_bw;
	uint64_t min_rtt;
	uint64_t delivered;
	uint64_t lost;
	uint64_t inflight_longterm;
	uint64_t smss;
	__u32 state;
	__u16 local_port;
	__u16 remote_port;
	__u32 is_ipv6;
	/* In 256ths; all ones while there is no response to marks. */
	__u32 ecn_alpha;
	uint64_t ecn_marked;
	__u32 samples;
	__u32 samples_without_note;
	__u32 losses;
	__u32 losses_not_found;
	__u32 tail_losses;
	__u32 restarts;
	/* The number of the network namespace; 0 where the kernel does not keep it there. */
	__u32 namespace;
	__u32 reserved;
};

SEC("iter/bpf_sk_storage_map")
int bbr3_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	const struct flow *f = ctx->value;

	if (!sk || !f)
		return 0;
	struct connection connection = {
		.cwnd = f->conn.cwnd,
		.pacing_rate = f->conn.pacing_rate,
		.max_bw = f->bbr.max_bw,
		.min_rtt = f->bbr.min_rtt,
		.delivered = f->conn.delivered,
		.lost = f->conn.lost,
		.inflight_longterm = f->bbr.inflight_longterm,
		.smss = f->conn.smss,
		.state = f->bbr.state,
		.local_port = sk->__sk_common.skc_num,
		.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport),
		.is_ipv6 = sk->__sk_common.skc_family == AF_INET6,
		.ecn_alpha = f->bbr.is_ecn_eligible ? f->bbr.ecn_alpha : ~0u,
		.ecn_marked = f->bbr.ecn_marked,
		.samples = f->samples,
		.samples_without_note = f->samples_without_note,
		.losses = f->losses,
		.losses_not_found = f->losses_not_found,
		.tail_losses = f->tail_losses,
		.restarts = f->restarts,
	};
	/* A kernel without IPv6 has no such addresses, and would refuse the program for them. */
	if (connection.is_ipv6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		bpf_core_read(connection.remote, 16, &sk->__sk_common.skc_v6_daddr);
		bpf_core_read(connection.local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
	} else {
		*(__be32 *)connection.remote = sk->__sk_common.skc_daddr;
		*(__be32 *)connection.local = sk->__sk_common.skc_rcv_saddr;
	}
	if (bpf_core_field_exists(sk->__sk_common.skc_net.net->ns.inum))
		connection.namespace = sk->__sk_common.skc_net.net->ns.inum;
	bpf_seq_write(ctx->meta->seq, &connection, sizeof(connection));
	return 0;
}

#endif
