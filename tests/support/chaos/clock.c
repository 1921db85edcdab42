/* Preloaded by a chaos run: the clocks of a process jump by what a shared file says.
 *
 * The file holds two 64-bit numbers of seconds: what the wall clock is ahead, and how long the machine has slept.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *jumps;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int handle = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    real = dlsym(RTLD_NEXT, "clock_gettime");
    if (handle < 0) return;
    void *page = mmap(0, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, handle, 0);
    close(handle);
    if (page != MAP_FAILED) jumps = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && jumps) {
        if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += jumps[0];
        if (clock == CLOCK_BOOTTIME) now->tv_sec += jumps[1];
    }
    return failed;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    told->tv_sec = now.tv_sec;
    told->tv_usec = now.tv_nsec / 1000;
    return 0;
}
