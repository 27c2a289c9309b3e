// Gives one process clocks of its own, which run faster or slower than the
// machine's. Loaded with LD_PRELOAD by `cargo trials faults`, which writes the
// file that FAULTS_CLOCK names and describes it in clock.rs.
//
// A wait until a moment of the monotonic clock is translated back, or the
// kernel would wait by the true clock for a moment of the false one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STRETCHES_MAX 4096
#define BILLION 1000000000LL

// From `from` on: false = from + ahead + (true - from) * (1 + rate / 10^6).
struct stretch {
  int64_t from, ahead, rate, wall;
};

struct page {
  // How often a process has read the clock: proof that it is in here.
  _Atomic uint64_t readings;
  // Only ever grows; the stretches below it never change.
  _Atomic uint64_t stretches;
  struct stretch all[STRETCHES_MAX];
};

static struct page *page;
static int (*true_clock_gettime)(clockid_t, struct timespec *);
static long (*true_syscall)(long, ...);

__attribute__((constructor)) static void begin(void) {
  true_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  true_syscall = dlsym(RTLD_NEXT, "syscall");
  const char *path = getenv("FAULTS_CLOCK");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) page = mapped;
}

// The stretch that a true moment lies in.
static const struct stretch *stretch_at(int64_t moment) {
  uint64_t count = atomic_load_explicit(&page->stretches, memory_order_acquire);
  while (count > 0) {
    const struct stretch *last = &page->all[--count];
    if (last->from <= moment) return last;
  }
  return NULL;
}

static int64_t ahead(const struct stretch *in, int64_t moment) {
  return in->ahead + (int64_t)((__int128)(moment - in->from) * in->rate / 1000000);
}

static int64_t nanoseconds(const struct timespec *time) {
  return time->tv_sec * BILLION + time->tv_nsec;
}

static void set(struct timespec *time, int64_t moment) {
  time->tv_sec = moment / BILLION;
  time->tv_nsec = moment % BILLION;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!true_clock_gettime) return (int)syscall(SYS_clock_gettime, clock, time);
  int outcome = true_clock_gettime(clock, time);
  if (outcome != 0 || !page) return outcome;
  atomic_fetch_add_explicit(&page->readings, 1, memory_order_relaxed);
  int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  int monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
                  clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
  if (!wall && !monotonic) return outcome;
  struct timespec now;
  true_clock_gettime(CLOCK_MONOTONIC, &now);
  const struct stretch *in = stretch_at(nanoseconds(&now));
  if (!in) return outcome;
  int64_t more = ahead(in, nanoseconds(&now)) + (wall ? in->wall : 0);
  set(time, nanoseconds(time) + more);
  return outcome;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

// The true moment of a false one, from now on.
static int64_t true_moment(int64_t moment) {
  struct timespec now;
  true_clock_gettime(CLOCK_MONOTONIC, &now);
  const struct stretch *in = stretch_at(nanoseconds(&now));
  if (!in) return moment;
  int64_t since = moment - in->from - in->ahead;
  return in->from + (int64_t)((__int128)since * 1000000 / (1000000 + in->rate));
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (int index = 0; index < 6; index++) a[index] = va_arg(list, long);
  va_end(list);
  if (!true_syscall) true_syscall = dlsym(RTLD_NEXT, "syscall");
  if (number == SYS_futex && page && a[3]) {
    int command = (int)a[1] & FUTEX_CMD_MASK;
    if (command == FUTEX_WAIT_BITSET && !((int)a[1] & FUTEX_CLOCK_REALTIME)) {
      struct timespec until;
      memcpy(&until, (const void *)a[3], sizeof until);
      int64_t moment = true_moment(nanoseconds(&until));
      set(&until, moment > 0 ? moment : 0);
      return true_syscall(number, a[0], a[1], a[2], &until, a[4], a[5]);
    }
  }
  return true_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
