/*
 * Marks holders of locks that have lost their core, so that their waiters park instead of
 * spinning. Works on every kernel from 6.1.
 */
#include "page.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool is_preemption, struct task_struct *before, struct task_struct *after,
	     unsigned int state)
{
	struct slot *leaves = slot_of(before);
	struct slot *comes = slot_of(after);

	if (leaves && leaves->depth) {
		leaves->preempted = 1;
		/* Spinning is useless while the holder sleeps, too, but that is counted apart. */
		if (is_preemption || !state)
			COUNT(preempted);
		else
			COUNT(blocked);
	}
	if (comes && comes->preempted)
		comes->preempted = 0;
	return 0;
}
