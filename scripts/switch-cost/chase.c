/* Follows pointers in random order through KIB kibibytes, LOADS times, and publishes
 * its progress.  usage: chase KIB LOADS */
#include "jostle_progress.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 64, BATCH = 4096 };

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: chase KIB LOADS\n");
        return 2;
    }
    size_t lines = strtoull(words[1], 0, 10) * 1024 / LINE;
    uint64_t loads = strtoull(words[2], 0, 10);
    size_t *order = malloc(lines * sizeof *order);
    size_t *memory = aligned_alloc(4096, (lines * LINE + 4095) / 4096 * 4096);
    if (lines < 2 || !order || !memory)
        return 2;
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    srandom(1);
    for (size_t i = lines - 1; i > 0; i--) {
        size_t other = (size_t)random() % (i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    const size_t words_per_line = LINE / sizeof *memory;
    for (size_t i = 0; i < lines; i++)
        memory[order[i] * words_per_line] = order[(i + 1) % lines] * words_per_line;
    jostle_open();
    size_t at = 0;
    for (uint64_t done = 0; done < loads; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            at = memory[at];
        jostle_add(BATCH);
    }
    printf("%zu\n", at);
    return 0;
}
