/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* A connection's state, and where it is kept. */
#ifndef FULLPIPE_FLOW_H
#define FULLPIPE_FLOW_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "bbr3.h"
#include "notes.h"

/* From the end of notes to the middle of bbr is what every ACK reads: six cache lines, which are mostly cold. */
struct flow {
	struct notes notes;
	/* What of tp->delivered and tp->lost is in conn, and of tp->delivered_ce in bbr. */
	__u32 seen_delivered;
	__u32 seen_lost;
	__u32 seen_marks;
	/* ACKs with a delivery-rate sample. */
	__u32 samples;
	struct bbr3_conn conn;
	struct bbr3 bbr;
	__u32 initial_packets;
	/* The end of the last packet that was reported as lost. */
	__u32 lost_end_seq;
	/* Samples whose packet has no note any more. */
	__u32 samples_without_note;
	/* Packets that were lost, and those of them that were not found in the retransmission queue. */
	__u32 losses;
	__u32 losses_not_found;
};

/* The kernel's allocation holds 72 bytes beside it, and what is above 8 KB would take 16. */
_Static_assert(sizeof(struct flow) + 128 <= 8192, "a connection's state is to fit into 8 KB");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Set by the loader. */
struct settings {
	/* How many connections may have state at once. */
	__u32 max_connections;
	/*
	 * Marks on the paths of this machine mean a queue of well under a millisecond. Linux's BBRv3 takes that
	 * from the route (RTAX_FEATURE_ECN_LOW), which a stock kernel does not have: that ECN was negotiated does
	 * not say what a mark means.
	 */
	bool is_ecn_low_latency;
};

const volatile struct settings settings SEC(".rodata.settings") = { 0 };

/* How many have. */
__u32 connections_now;

/*
 * All network namespaces and users share the limit. Connections above it, and those whose socket has no
 * room for options left (net.core.optmem_max), go on without state.
 */
static struct flow *create_flow(struct sock *sk)
{
	if (__sync_fetch_and_add(&connections_now, 1) < settings.max_connections) {
		struct flow *f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

		if (f)
			return f;
	}
	__sync_fetch_and_sub(&connections_now, 1);
	return NULL;
}

static struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static void delete_flow(struct sock *sk)
{
	if (!flow_of(sk))
		return;
	/* Fails for a socket that is being destroyed, whose state goes with it. */
	bpf_sk_storage_delete(&flows, sk);
	__sync_fetch_and_sub(&connections_now, 1);
}

#endif
