/* Publishes a program's progress for `jostle profile`: call jostle_open once,
 * then jostle_add for each operation (or batch); from any thread or child.
 * Without JOSTLE_PROGRESS in the environment both do nothing.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef JOSTLE_PROGRESS_H
#define JOSTLE_PROGRESS_H
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t *jostle_page; /* magic, version, operations, busy_ns, clock, 0, 0, 0 */

static inline void jostle_open(void) {
    const char *name = getenv("JOSTLE_PROGRESS");
    int file = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    struct stat facts;
    if (file < 0) return;
    if (!fstat(file, &facts) && (facts.st_size >= 64 || !ftruncate(file, 64))) {
        void *page = mmap(0, 64, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) {
            jostle_page = (uint64_t *)page;
            jostle_page[1] = 1;
            __atomic_store_n(jostle_page, UINT64_C(0x4a4f53544c455047), __ATOMIC_RELEASE);
        }
    }
    close(file);
}

static inline void jostle_add(uint64_t operations) {
    if (jostle_page) __atomic_fetch_add(jostle_page + 2, operations, __ATOMIC_RELAXED);
}
#endif
