/* What a walk through a part of the last-level cache costs, in nanoseconds per line:
 *
 *   llc-walk sizes SECONDS          alone, through several sizes in turns
 *   llc-walk recovery MIB [sequence|scattered OTHER_MIB]
 *                                   while the other CPU reads (a stream, or so much again
 *                                   and again), and after it has stopped
 *   llc-walk kept MIB               some time after it was read, alone and beside a stream
 *   llc-walk beside MIB SECONDS -- COMMAND...
 *                                   beside a command that is started again and again,
 *                                   or beside `stream`, against itself alone
 *   llc-walk patterns MIB ROUNDS -- COMMAND...
 *                                   what a command that runs to its end keeps beside
 *                                   another CPU that uses memory in several ways: MIB
 *                                   (2 or more) again and again, or streams
 *
 * What is measured runs on CPU 1, everything else on CPU 0. The second column, or `shared`, is
 * the time of a cache line from one CPU to the other and back: above 220 ns they share
 * no last-level cache. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, APART_NS = 220, STREAM_BYTES = 256 << 20, FLIPS = 30, BINS = 20, PASSES = 10, TRIES = 9 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void on_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("llc-walk: this needs CPUs 0 and 1");
        exit(3);
    }
}

/* One cache line that goes there and back. */
static _Alignas(128) atomic_ulong line;
static _Alignas(128) atomic_int done;

static void *answer(void *unused) {
    on_cpu(0);
    while (!done) {
        unsigned long value = line;
        if (value & 1) line = value + 1;
    }
    return unused;
}

static double there_and_back(void) {
    pthread_t other;
    double best = INFINITY;
    done = 0;
    line = 0;
    pthread_create(&other, 0, answer, 0);
    usleep(500);
    for (double end = now() + 1e6; now() < end;) {
        double begin = now();
        for (int i = 0; i < 200; i++) {
            unsigned long value = line;
            line = value + 1;
            while (line != value + 2) {}
        }
        best = fmin(best, (now() - begin) / 200);
    }
    done = 1;
    pthread_join(other, 0);
    return best;
}

/* A ring of all lines in random order. */
struct walk {
    uint64_t *words;
    uint64_t at;
};

static char *memory(size_t length) {
    size_t huge = 2 << 20;
    char *bytes = mmap(0, length + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        perror("llc-walk: no memory");
        exit(3);
    }
    bytes = (char *)(((uintptr_t)bytes + huge - 1) & ~(huge - 1));
    madvise(bytes, length, MADV_HUGEPAGE);
    return bytes;
}

static struct walk ring(double mib) {
    size_t lines = mib * (1 << 20) / LINE, *order = malloc(lines * sizeof *order);
    if (!order || lines < 2) {
        fprintf(stderr, "llc-walk: no memory for %g MiB\n", mib);
        exit(3);
    }
    struct walk walk = {(uint64_t *)memory(lines * LINE), 0};
    srand(1);
    for (size_t i = 0; i < lines; i++) order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = ((uint64_t)rand() << 20 ^ rand()) % (i + 1), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    for (size_t i = 0; i < lines; i++) walk.words[order[i] * 8] = order[(i + 1) % lines];
    free(order);
    return walk;
}

static double walk_ns(struct walk *walk, double milliseconds) {
    double begin = now(), end = begin + milliseconds * 1e6, at;
    long steps = 0;
    do {
        for (int i = 0; i < 256; i++) walk->at = walk->words[walk->at * 8];
        steps += 256;
        at = now();
    } while (at < end);
    return (at - begin) / steps;
}

/* What the other CPU does. */
static const char *const ways[] = {"nothing", "a stream", "in sequence", "scattered", "a stream, each 2 MiB twice",
                                   "a stream that writes"};
enum { ALONE, STREAM, SEQUENCE, SCATTERED, TWICE, WRITES, WAYS };

static uint64_t sum_of(const char *bytes, size_t length) {
    const uint64_t *words = (const uint64_t *)bytes;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < length / 8; i += 8)
        for (int lane = 0; lane < 8; lane++) sums[lane] ^= words[i + lane];
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

static void press_for_ever(int way, double mib, atomic_int *goes) {
    enum { PIECE = 2 << 20, LINES = PIECE / LINE };
    int holds = way == SEQUENCE || way == SCATTERED;
    size_t bytes = holds ? (size_t)(mib * (1 << 20)) / PIECE * PIECE : STREAM_BYTES, lines = bytes / LINE;
    char *from = memset(memory(bytes), 1, bytes);
    volatile uint64_t sum = 0;
    uint64_t order = 0;
    for (;;)
        for (size_t at = 0; at < bytes; at += PIECE) {
            while (goes && !*goes) usleep(100);
            if (way == SCATTERED)
                /* The golden ratio, as a fraction of 2^64: no prefetcher follows. */
                for (int i = 0; i < LINES; i++, order += 0x9e3779b97f4a7c15)
                    sum += sum_of(from + (uint64_t)((unsigned __int128)order * lines >> 64) * LINE, LINE);
            else if (way == WRITES)
                /* No memset, which may go past the caches. */
                for (size_t word = 0; word < PIECE / 8; word++) ((uint64_t *)(from + at))[word] = order++;
            else
                for (int pass = 0; pass < (way == TWICE ? 2 : 1); pass++) sum += sum_of(from + at, PIECE);
        }
}

static atomic_int streams;
static int other_way = STREAM;
static double other_mib;

static void *stream(void *unused) {
    on_cpu(0);
    press_for_ever(other_way, other_mib, &streams);
    return unused;
}

static int sizes(double seconds) {
    double mib[] = {4, 8, 12, 15, 20};
    struct walk walks[5];
    for (int i = 0; i < 5; i++) walks[i] = ring(mib[i]);
    printf("seconds  line ns    4 MiB  8 MiB  12 MiB  15 MiB  20 MiB\n");
    for (double begin = now(); now() - begin < seconds * 1e9; usleep(200000)) {
        double back = there_and_back(), ns[5];
        for (int i = 0; i < 5; i++) {
            walk_ns(&walks[i], 40);
            ns[i] = walk_ns(&walks[i], 15);
        }
        printf("%7.1f %8.0f %8.0f %6.0f %7.0f %7.0f %7.0f\n", (now() - begin) / 1e9, back, ns[0], ns[1],
               ns[2], ns[3], ns[4]);
    }
    return 0;
}

static int recovery(double mib) {
    struct walk walk = ring(mib);
    double back = there_and_back();
    printf("a line takes %.0f ns there and back; ns per line of %g MiB beside %s, by ms since the switch\n", back,
           mib, ways[other_way]);
    pthread_t other;
    pthread_create(&other, 0, stream, 0);
    sleep(1);
    double lengths[] = {8, 40, 160};
    for (int i = 0; i < 3; i++) {
        double piece = lengths[i] / BINS, sums[2][BINS] = {{0}};
        for (int flip = 0; flip < FLIPS; flip++)
            for (int goes = 1; goes >= 0; goes--) {
                streams = goes;
                for (int bin = 0; bin < BINS; bin++) sums[goes][bin] += walk_ns(&walk, piece) / FLIPS;
            }
        for (int goes = 1; goes >= 0; goes--) {
            printf("%3.0f ms %s:", lengths[i], goes ? "beside it " : "without it");
            for (int bin = 1; bin < BINS; bin += 3) printf("  %5.1f: %3.0f", (bin + 1) * piece, sums[goes][bin]);
            printf("\n");
        }
    }
    streams = 0;
    printf("a line takes %.0f ns there and back\n", there_and_back());
    return 0;
}

static int ascending(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static int kept(double mib) {
    struct walk walk = ring(mib);
    double waits[] = {0, 3, 10, 30, 100, 300};
    pthread_t other;
    volatile uint64_t read;
    pthread_create(&other, 0, stream, 0);
    sleep(1);
    printf("ns per line of %g MiB, by ms since it was read; median of %d\n", mib, TRIES);
    for (int goes = 0; goes < 2; goes++) {
        printf("%s:", goes ? "beside a stream" : "alone          ");
        for (int i = 0; i < 6; i++) {
            double ns[TRIES];
            for (int try = 0; try < TRIES; try++) {
                for (int pass = 0; pass < PASSES; pass++)
                    for (size_t at = 0; at < mib * (1 << 20) / LINE; at++) read = walk.words[at * 8];
                streams = goes;
                for (double end = now() + waits[i] * 1e6; now() < end;) {}
                streams = 0;
                ns[try] = walk_ns(&walk, 0.2);
            }
            qsort(ns, TRIES, sizeof *ns, ascending);
            printf("  %3.0f: %3.0f", waits[i], ns[TRIES / 2]);
        }
        printf("\n");
    }
    (void)read;
    return 0;
}

static pid_t start(char **command) {
    pid_t leader = fork();
    if (leader) {
        setpgid(leader, leader);
        return leader;
    }
    setpgid(0, 0);
    on_cpu(0);
    if (!strcmp(command[0], "stream")) press_for_ever(STREAM, 0, 0);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    for (int status = 0; !status;) {
        pid_t run = fork();
        if (!run) {
            execvp(command[0], command);
            _exit(127);
        }
        waitpid(run, &status, 0);
    }
    _exit(1);
}

static int beside(double mib, double seconds, char **command) {
    struct walk walk = ring(mib);
    on_cpu(1);
    pid_t group = start(command);
    sleep(1);
    double sum = 0, squares = 0, ns[2] = {0, 0};
    int rounds = 0, shared = 0;
    for (double end = now() + seconds * 1e9; now() < end; rounds++) {
        double here[2], first = (kill(-group, SIGSTOP), there_and_back());
        for (int i = 0, goes = rand() & 1; i < 2; i++, goes ^= 1) {
            kill(-group, goes ? SIGCONT : SIGSTOP);
            walk_ns(&walk, 40);
            here[goes] = walk_ns(&walk, 25);
        }
        kill(-group, SIGSTOP);
        if (first > APART_NS || there_and_back() > APART_NS) continue;
        double kept = log(here[0] / here[1]);
        sum += kept;
        squares += kept * kept;
        shared++;
        for (int i = 0; i < 2; i++) ns[i] += here[i];
    }
    int ended = waitpid(group, 0, WNOHANG) == group;
    kill(-group, SIGKILL);
    if (ended) {
        fprintf(stderr, "llc-walk: %s failed\n", command[0]);
        return 1;
    }
    if (shared < 3) {
        fprintf(stderr, "llc-walk: the CPUs shared their cache in %d of %d rounds; try again later\n", shared, rounds);
        return 1;
    }
    double mean = sum / shared, error = sqrt((squares / shared - mean * mean) / (shared - 1));
    printf("%g MiB beside %s: shared in %d of %d rounds; alone %.1f ns, beside it %.1f ns; kept %.3f ± %.3f\n", mib,
           command[0], shared, rounds, ns[0] / shared, ns[1] / shared, exp(mean), 1.96 * error * exp(mean));
    return 0;
}

static pid_t start_pressing(int way, double mib) {
    pid_t reader = way == ALONE ? -1 : fork();
    if (reader) return reader;
    on_cpu(0);
    press_for_ever(way, mib, 0);
    return 0;
}

static double run_seconds(char **command) {
    double begin = now();
    int status;
    pid_t run = fork();
    if (!run) {
        on_cpu(1);
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++) dup2(null, fd);
        execvp(command[0], command);
        _exit(127);
    }
    waitpid(run, &status, 0);
    if (status) {
        fprintf(stderr, "llc-walk: %s failed\n", command[0]);
        exit(1);
    }
    return (now() - begin) / 1e9;
}

static int patterns(double mib, int rounds, char **command) {
    double *seconds[WAYS];
    int counts[WAYS] = {0}, tries = 0;
    for (int way = 0; way < WAYS; way++) seconds[way] = calloc(rounds, sizeof(double));
    on_cpu(1);
    for (int round = 0; round < rounds; round++)
        for (int i = 0, first = rand() % WAYS; i < WAYS; i++) {
            int way = (first + i) % WAYS;
            double before = there_and_back();
            pid_t reader = start_pressing(way, mib);
            if (reader > 0) sleep(1);
            double took = run_seconds(command);
            if (reader > 0) {
                kill(reader, SIGKILL);
                waitpid(reader, 0, 0);
            }
            tries++;
            if (before > APART_NS || there_and_back() > APART_NS) continue;
            seconds[way][counts[way]++] = took;
        }
    int shared = 0;
    for (int way = 0; way < WAYS; way++) {
        shared += counts[way];
        qsort(seconds[way], counts[way], sizeof(double), ascending);
    }
    printf("%s: the CPUs shared their cache in %d of %d runs\n", command[0], shared, tries);
    if (!counts[ALONE]) {
        fprintf(stderr, "llc-walk: in no run alone; try again later\n");
        return 1;
    }
    double alone = seconds[ALONE][counts[ALONE] / 2];
    printf("alone %.2f s; beside what another CPU does, it keeps %% (median; least, most)\n", alone);
    for (int way = STREAM; way < WAYS; way++) {
        if (!counts[way]) continue;
        double *of = seconds[way];
        printf("%-28s %4.0f (%.0f, %.0f)\n", ways[way], 100 * alone / of[counts[way] / 2],
               100 * alone / of[counts[way] - 1], 100 * alone / of[0]);
    }
    return 0;
}

int main(int count, char **words) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (count == 3 && !strcmp(words[1], "sizes")) return on_cpu(1), sizes(atof(words[2]));
    if (count == 5 && !strcmp(words[1], "recovery")) {
        other_way = !strcmp(words[3], "sequence") ? SEQUENCE : !strcmp(words[3], "scattered") ? SCATTERED : ALONE;
        other_mib = atof(words[4]);
    }
    if ((count == 3 || (count == 5 && other_mib >= 2)) && !strcmp(words[1], "recovery") && other_way != ALONE)
        return on_cpu(1), recovery(atof(words[2]));
    if (count == 3 && !strcmp(words[1], "kept")) return on_cpu(1), kept(atof(words[2]));
    if (count > 5 && !strcmp(words[1], "beside") && !strcmp(words[4], "--"))
        return beside(atof(words[2]), atof(words[3]), words + 5);
    if (count > 5 && !strcmp(words[1], "patterns") && !strcmp(words[4], "--") && atof(words[2]) >= 2)
        return patterns(atof(words[2]), atoi(words[3]), words + 5);
    fprintf(stderr, "usage: llc-walk sizes SECONDS | recovery MIB [sequence|scattered OTHER_MIB] | kept MIB | beside MIB SECONDS -- COMMAND... | patterns MIB ROUNDS -- COMMAND...\n");
    return 2;
}
