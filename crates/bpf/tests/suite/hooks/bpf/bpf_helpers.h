/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* In place of libbpf's: what c/bbr3.bpf.c takes from BPF, in a process. It has one connection. */
#ifndef FULLPIPE_BPF_HELPERS_H
#define FULLPIPE_BPF_HELPERS_H

#include <stddef.h>

#define SEC(name)
#define __ksym
#define __weak
#define __noinline __attribute__((noinline))
#define __uint(name, value) int (*name)[value]
#define __type(name, type_of_it) type_of_it *name

#define bpf_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)

/* Made when it is first asked for, as long as keeps_state. */
extern bool keeps_state;
void *the_state(void);

static inline void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags)
{
	return keeps_state ? the_state() : 0;
}

static inline long bpf_sk_storage_delete(void *map, void *sk) { return 0; }
static inline __u32 bpf_get_prandom_u32(void) { return 4; }
long bpf_seq_write(void *seq, const void *data, __u32 size);

#endif
