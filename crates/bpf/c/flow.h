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
	/* The part of tp->delivered and tp->lost that is in conn, and of tp->delivered_ce in bbr. */
	__u32 seen_delivered;
	__u32 seen_lost;
	__u32 seen_marks;
	/* Packets in conn.delivered that no ACK was reported of yet. */
	__u32 newly_delivered;
	/* TCP has repaired the loss of a last packet with a probe, in the ACK of the time cwr_us. */
	bool is_tail_lost;
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
	/* Those that TCP repaired with a probe, and does not call lost. */
	__u32 tail_losses;
	/* Restarts from idle. */
	__u32 restarts;
	/* When TCP entered CWR. */
	__u32 cwr_us;
};

/* The kernel's allocation holds 72 bytes beside it, and what is above 8 KB would take 16. */
_Static_assert(sizeof(struct flow) + 128 <= 8192, "a connection's state is to fit into 8 KB");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Set by the loader: src/kernel/settings.rs. */
struct settings {
	/* The most connections that may have state at once. */
	__u32 max_connections;
	/*
	 * Marks on the paths of this machine mean a queue of well under a millisecond. Linux's BBRv3 takes that
	 * from the route (RTAX_FEATURE_ECN_LOW), which a stock kernel does not have: that ECN was negotiated does
	 * not say what a mark means.
	 */
	bool is_ecn_low_latency;
	/* For status alone: which program this is, and what the system's default was before it. */
	bool is_amended;
	char name[16];
	char previous_default[16];
	char version[16];
	uint64_t build;
};

const volatile struct settings settings SEC(".rodata.settings") = { 0 };

/* For status: src/kernel/usage.rs reads it. */
struct usage {
	/* Connections that have state. */
	__u32 connections;
	/* Those that run as Reno: above the limit, and without memory for their state. */
	__u32 above_limit;
	__u32 without_memory;
};

struct usage usage SEC(".data.usage");

static struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

/* The reason for Reno on a connection, in the memory that TCP gives its algorithm and clears before init(). */
enum reno_because {
	NOT_AS_RENO,
	ABOVE_LIMIT,
	WITHOUT_MEMORY,
};

static void count_as_reno(uint64_t why, int change)
{
	if (why == ABOVE_LIMIT)
		__sync_fetch_and_add(&usage.above_limit, change);
	else if (why == WITHOUT_MEMORY)
		__sync_fetch_and_add(&usage.without_memory, change);
}

static void note_as_reno(struct sock *sk, enum reno_because why)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	uint64_t before = icsk->icsk_ca_priv[0];

	if (before == why)
		return;
	count_as_reno(before, -1);
	count_as_reno(why, 1);
	icsk->icsk_ca_priv[0] = why;
}

/*
 * All network namespaces and users share the limit. Connections above it, and those whose socket has no
 * room for options left (net.core.optmem_max), go on without state.
 */
static struct flow *create_flow(struct sock *sk)
{
	struct flow *f = flow_of(sk);
	enum reno_because why = ABOVE_LIMIT;

	if (f)
		return f;
	if (__sync_fetch_and_add(&usage.connections, 1) < settings.max_connections) {
		f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		why = f ? NOT_AS_RENO : WITHOUT_MEMORY;
	}
	if (!f)
		__sync_fetch_and_sub(&usage.connections, 1);
	note_as_reno(sk, why);
	return f;
}

static void delete_flow(struct sock *sk)
{
	note_as_reno(sk, NOT_AS_RENO);
	if (!flow_of(sk))
		return;
	/* Fails for a socket that is being destroyed, whose state goes with it. */
	bpf_sk_storage_delete(&flows, sk);
	__sync_fetch_and_sub(&usage.connections, 1);
}

#endif
