/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
#ifndef FULLPIPE_BPF_CORE_READ_H
#define FULLPIPE_BPF_CORE_READ_H

/* Types are where the compiler put them. A kernel may be without members whose names begin so; NULL: it has all. */
extern const char *lacking;
extern __u32 reads_of_lacking;

static inline bool exists(const char *access)
{
	return !lacking || !__builtin_strstr(access, lacking);
}

static inline void note_read(const char *access)
{
	reads_of_lacking += !exists(access);
}

#define BPF_CORE_READ_BITFIELD(s, field) ((s)->field)
#define bpf_core_read(to, size, from) (note_read(#from), __builtin_memcpy((to), (from), (size)))
#define bpf_core_type_id_kernel(type) 0
#define bpf_core_field_exists(field) exists(#field)

#endif
