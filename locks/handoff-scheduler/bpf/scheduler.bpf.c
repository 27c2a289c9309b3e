/*
 * Two schedulers for sched_ext.
 *
 *   fifo   one queue for all cores, long slices, and no preemption by threads that wake
 *   hint   the same, but a thread that holds a lock goes first, and its slice is extended
 *          once each time it is on a core; after that it waits like all others
 *
 *   wakes ──► idle core? ──yes──► that core's own queue
 *               │ no
 *               ▼
 *            holds a lock? ──yes──► HOLDERS ─┐
 *               │ no                         ├──► the next core without work takes
 *               └─────────────────► ALL ─────┘     from HOLDERS first, seven times of eight
 */
#include "page.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ALL 0
#define HOLDERS 1
#define SLICE_NANOS 5000000ULL
/* More than any critical section that is worth waiting for. */
#define EXTENSION_NANOS 1000000ULL
/* Every eighth thread comes from the queue of all, however many holders wait. */
#define TURN_OF_ALL 8
/* The kernel removes the scheduler if a runnable thread has not run for that long. */
#define STALLED_MILLIS 20000
#define ANY_NODE -1

/* Enumerations of the kernel: their values are looked up when the program is loaded. */
enum scx_dsq_id_flags { SCX_DSQ_LOCAL = 1ULL << 63 };
enum scx_kick_flags { SCX_KICK_IDLE = 1 };
enum scx_ent_flags { SCX_TASK_QUEUED = 1 };

#define ENUM(type, name) bpf_core_enum_value(enum type, name)

extern __s32 scx_bpf_create_dsq(__u64 queue, __s32 node) __ksym;
extern __s32 scx_bpf_select_cpu_dfl(struct task_struct *task, __s32 before, __u64 flags,
				    bool *is_idle) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *task, __u64 queue, __u64 slice,
			       __u64 flags) __ksym;
extern bool scx_bpf_dsq_move_to_local(__u64 queue) __ksym;
extern __s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, __u64 flags) __ksym;
extern void scx_bpf_kick_cpu(__s32 core, __u64 flags) __ksym;

/* Only the members that are set; the kernel's structure has more. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *task, __s32 before, __u64 flags);
	void (*enqueue)(struct task_struct *task, __u64 flags);
	void (*dispatch)(__s32 core, struct task_struct *before);
	void (*running)(struct task_struct *task);
	__s32 (*init)(void);
	__u32 timeout_ms;
	char name[128];
};

/* 1 for a thread that has got its extension and is still on its core. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} extended SEC(".maps");

/* Number of requests of cores for work; concurrent increments may be lost. */
static volatile __u32 asked;

static __always_inline bool holds(struct task_struct *task)
{
	struct slot *slot = slot_of(task);

	return slot && slot->depth;
}

/* Wakes an idle core for this thread: one may have become idle since none was found. */
static __always_inline void wake_a_core(struct task_struct *task)
{
	__s32 core = scx_bpf_pick_idle_cpu(task->cpus_ptr, 0);

	if (core >= 0)
		scx_bpf_kick_cpu(core, ENUM(scx_kick_flags, SCX_KICK_IDLE));
}

SEC("struct_ops/choose_core")
__s32 BPF_PROG(choose_core, struct task_struct *task, __s32 before, __u64 flags)
{
	bool is_idle = false;
	__s32 core = scx_bpf_select_cpu_dfl(task, before, flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(task, ENUM(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NANOS, 0);
	return core;
}

SEC("struct_ops/fifo_enqueue")
void BPF_PROG(fifo_enqueue, struct task_struct *task, __u64 flags)
{
	scx_bpf_dsq_insert(task, ALL, SLICE_NANOS, flags);
	wake_a_core(task);
}

SEC("struct_ops/fifo_dispatch")
void BPF_PROG(fifo_dispatch, __s32 core, struct task_struct *before)
{
	scx_bpf_dsq_move_to_local(ALL);
}

/* A holder that has used its extension waits like all others. */
static __always_inline bool goes_first(struct task_struct *task)
{
	__u32 *given = bpf_task_storage_get(&extended, task, 0, 0);

	return holds(task) && !(given && *given);
}

SEC("struct_ops/hint_enqueue")
void BPF_PROG(hint_enqueue, struct task_struct *task, __u64 flags)
{
	scx_bpf_dsq_insert(task, goes_first(task) ? HOLDERS : ALL, SLICE_NANOS, flags);
	wake_a_core(task);
}

/* Extends the slice of a holder at its end, once; whether it was extended. */
static __always_inline bool extend(struct task_struct *task)
{
	__u32 *given;

	if (!holds(task))
		return false;
	given = bpf_task_storage_get(&extended, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!given || *given)
		return false;
	*given = 1;
	task->scx.slice = EXTENSION_NANOS;
	COUNT(extended);
	return true;
}

SEC("struct_ops/hint_dispatch")
void BPF_PROG(hint_dispatch, __s32 core, struct task_struct *before)
{
	if (before && (before->scx.flags & ENUM(scx_ent_flags, SCX_TASK_QUEUED)) && extend(before))
		return;
	if (asked++ % TURN_OF_ALL == 0 && scx_bpf_dsq_move_to_local(ALL))
		return;
	if (!scx_bpf_dsq_move_to_local(HOLDERS))
		scx_bpf_dsq_move_to_local(ALL);
}

/* Not called for a thread that stays on its core. */
SEC("struct_ops/hint_running")
void BPF_PROG(hint_running, struct task_struct *task)
{
	__u32 *given = bpf_task_storage_get(&extended, task, 0, 0);

	if (given)
		*given = 0;
}

SEC("struct_ops.s/make_queues")
__s32 BPF_PROG(make_queues)
{
	__s32 failed = scx_bpf_create_dsq(ALL, ANY_NODE);

	return failed ? failed : scx_bpf_create_dsq(HOLDERS, ANY_NODE);
}

SEC(".struct_ops.link")
struct sched_ext_ops fifo = {
	.select_cpu = (void *)choose_core,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.init = (void *)make_queues,
	.timeout_ms = STALLED_MILLIS,
	.name = "handoff_fifo",
};

SEC(".struct_ops.link")
struct sched_ext_ops hint = {
	.select_cpu = (void *)choose_core,
	.enqueue = (void *)hint_enqueue,
	.dispatch = (void *)hint_dispatch,
	.running = (void *)hint_running,
	.init = (void *)make_queues,
	.timeout_ms = STALLED_MILLIS,
	.name = "handoff_hint",
};
