/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The kernel's types, of which only the members that bbr3.bpf.c reads or writes. Where a member is
 * in the running kernel is found when the program is loaded (CO-RE): neither this order nor these
 * offsets mean anything.
 */
#ifndef FULLPIPE_KERNEL_H
#define FULLPIPE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

typedef __u8 uint8_t;
typedef __u32 uint32_t;
typedef __s32 int32_t;
typedef __s64 int64_t;
typedef __u64 uint64_t;
#define UINT64_C(n) n##ull
#define bool _Bool
#define true 1
#define false 0
#define FULLPIPE_KERNEL_TYPES

/* enum bpf_map_type, and the flags of its maps. */
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

#define AF_INET6 10
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CA_CWR 2
#define TCP_CA_Recovery 3
#define TCP_CA_Loss 4
#define CA_EVENT_TX_START 0
#define TCPCB_SACKED_ACKED 1
/* Sent again, now or ever. */
#define TCPCB_RETRANS 0x92
#define TCPCB_LOST 4
/* RFC 3168's ECN, or since Linux 6.18 accurate ECN: bit 4, which had no meaning before. */
#define TCP_ECN_MODE_ANY (1 | 1 << 4)
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	struct {
		__u8 u6_addr8[16];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	unsigned short skc_family;
	__u16 skc_num;
	__be16 skc_dport;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
};

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
	struct rb_root tcp_rtx_queue;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5, icsk_ca_initialized : 1, icsk_ca_setsockopt : 1;
	__u64 icsk_ca_priv[1];
};

struct sk_buff {
	struct rb_node rbnode;
	char cb[48];
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u16 tcp_gso_segs;
	__u8 sacked;
	struct {
		__u32 is_app_limited : 1;
	} tx;
};

struct minmax_sample {
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 data_segs_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 app_limited;
	__u32 srtt_us;
	struct minmax rtt_min;
	__u64 tcp_mstamp;
	__u64 first_tx_mstamp;
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1, tlp_retrans : 1;
};

struct rate_sample {
	__u64 prior_mstamp;
	__s32 delivered;
	__s32 delivered_ce;
	long interval_us;
	long rtt_us;
	__u32 prior_in_flight;
	int acked_sacked;
	__u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

/* remote_port is in the network's byte order, local_port is not. */
struct bpf_sock_ops {
	__u32 op;
	__u32 remote_port;
	__u32 local_port;
	struct bpf_sock *sk;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

/* The state of bpf_for(). */
struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

/* The fields that the program fills in; the name comes first, so that the loader finds it. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*ssthresh)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*min_tso_segs)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
};

#endif
