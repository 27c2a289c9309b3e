#!/bin/busybox sh
# The guest's first process: checks the schedulers, then measures. What begins with
# `guest:` or `cell` is read by whoever has booted it.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
export PATH=/bin
# The console's messages of other processes would tear lines apart.
dmesg -n 1

state() { cat /sys/kernel/sched_ext/state; }

failed() {
	echo "guest: failed: $*"
	poweroff -f
}

# The scheduler must be gone, whatever has just happened.
gone() { [ "$(state)" = disabled ] || failed "$1 left the scheduler $(state)"; }

# Ends what the firmware has left on the line.
echo
echo "guest: kernel $(uname -r), $(nproc) cores"
[ -d /sys/kernel/sched_ext ] || failed "this kernel has no sched_ext"

round=0
while [ $round -lt 20 ]; do
	handoff run --no-preload --sched fifo -- true || failed "fifo, round $round: $?"
	gone fifo
	handoff run --sched hint --monitor -- handoff --version >/dev/null || failed "hint, round $round: $?"
	gone hint
	round=$((round + 1))
done
echo "guest: each scheduler was loaded and unloaded 20 times"

# Kills a process of a run that would go on for long, and looks what stays behind.
killed() { # signal, program to kill, expected code of handoff
	handoff run --sched hint --monitor -- leveldb-bench run --benchmark fillrandom \
		--threads 8 --seconds 60 --directory /tmp >/tmp/said 2>&1 &
	run=$!
	until [ -d /tmp/leveldb-bench* ]; do
		kill -0 $run || failed "nothing to kill: $(cat /tmp/said)"
		usleep 10000
	done
	[ "$(state)" = enabled ] || failed "$2 runs, but the scheduler is $(state)"
	kill "-$1" "$(pidof "$2")"
	until [ "$(state)" = disabled ]; do usleep 10000; done
	# Without its scheduler, or without `handoff`, the program goes on.
	killall -q -ABRT leveldb-bench
	wait $run
	code=$?
	[ $code = "$3" ] || failed "$2 killed by $1: $code $(cat /tmp/said)"
	echo "guest: $2 killed by $1: exit code $code, no scheduler left"
	rm -rf /tmp/leveldb-bench*
}
# Not SEGV, which Rust handles.
killed ABRT leveldb-bench 134
killed KILL handoff 137
killed KILL handoff-scheduler 124

