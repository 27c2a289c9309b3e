/*
 * The hint page as an array of slots: `handoff::hints` has the layout and the rule by
 * which a thread finds its slot. Both sides change together, with the page's version.
 */
#pragma once

#include "kernel.h"

/* 1 MiB with the header. */
#define SLOTS 16383
/* Number of slots that a thread may take. */
#define PLACES 8

struct slot {
	__u32 thread;
	__u32 depth;
	__u64 waiting;
	__u32 preempted;
	__u32 unused[11];
};

/* Element 0 is the header. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS + 1);
	__type(key, __u32);
	__type(value, struct slot);
} page SEC(".maps");

/* Counts of holders that lost their core; the loader prints them. */
struct counts {
	__u64 preempted;
	__u64 blocked;
	__u64 extended;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counted SEC(".maps");

#define COUNT(what)                                                      \
	do {                                                             \
		__u32 only = 0;                                          \
		struct counts *counts = bpf_map_lookup_elem(&counted, &only); \
		if (counts)                                              \
			__sync_fetch_and_add(&counts->what, 1);          \
	} while (0)

/* The thread's number in its own PID namespace, as gettid returns it. */
static __always_inline __u32 own_number(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	__u32 number = 0;

	if (!level)
		return BPF_CORE_READ(task, pid);
	bpf_probe_read_kernel(&number, sizeof(number),
			      (char *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid));
	return number;
}

/* The thread's slot; NULL if it has none, as kernel threads and idle threads. */
static __always_inline struct slot *slot_of(struct task_struct *task)
{
	__u32 thread = own_number(task);

	if (!thread)
		return NULL;
	for (int place = 0; place < PLACES; place++) {
		__u32 number = 1 + (thread + place) % SLOTS;
		struct slot *slot = bpf_map_lookup_elem(&page, &number);

		if (slot && slot->thread == thread)
			return slot;
	}
	return NULL;
}
