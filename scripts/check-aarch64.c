/* Calls every routine of asm/aarch64 and compares with plain C, bit by bit.
 * The C follows the facts in the header comment of each assembly file. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void jostle_int(uint64_t *lanes, uint64_t rounds, uint64_t k);
void jostle_fp_neon(double *lanes, uint64_t rounds, double factor, double step);
void jostle_vector_neon(double *lanes, uint64_t rounds, double factor);
uint64_t jostle_branch(uint64_t state, uint64_t blocks);
uint64_t jostle_stream_load_neon(const uint8_t *base, size_t blocks);

static const uint64_t K = 0x9E3779B97F4A7C15;
static const double FACTOR = -1.999987654321, STEP = 0.6180339887498948;

static int failures;

static void same(const char *routine, uint64_t rounds, const void *got, const void *expected, size_t bytes)
{
    if (memcmp(got, expected, bytes) != 0) {
        printf("%s differs from its twin after %llu rounds\n", routine, (unsigned long long)rounds);
        failures++;
    }
}

static uint64_t operation(unsigned place, uint64_t x)
{
    if (place == 0)
        return x * K;
    if (place == 1)
        return x << 13 | x >> 51;
    return place % 2 == 0 ? x + K : x ^ K;
}

static void check_int(uint64_t rounds)
{
    uint64_t got[12], expected[12];
    for (unsigned lane = 0; lane < 12; lane++)
        got[lane] = expected[lane] = K << lane | lane;
    for (unsigned row = 0; row < 12 * rounds; row++)
        for (unsigned place = 0; place < 12; place++)
            expected[(row + place) % 12] = operation(place, expected[(row + place) % 12]);
    jostle_int(got, rounds, K);
    same("jostle_int", rounds, got, expected, sizeof got);
}

static void check_floats(uint64_t rounds)
{
    double fp[22], fp_expected[22], vector[44], vector_expected[44];
    for (unsigned lane = 0; lane < 22; lane++)
        fp[lane] = fp_expected[lane] = 1 + fmod(lane * STEP, 1);
    for (unsigned lane = 0; lane < 44; lane++)
        vector[lane] = vector_expected[lane] = 1 + fmod(lane * STEP, 1);
    for (unsigned row = 0; row < 2 * rounds; row++) {
        for (unsigned lane = 0; lane < 22; lane += 2) {
            fp_expected[lane] = fma(fp_expected[lane], FACTOR, fp_expected[lane]);
            fp_expected[lane + 1] += row % 2 == 0 ? STEP : -STEP;
        }
        for (unsigned lane = 0; lane < 44; lane++)
            vector_expected[lane] = fma(vector_expected[lane], FACTOR, vector_expected[lane]);
    }
    jostle_fp_neon(fp, rounds, FACTOR, STEP);
    same("jostle_fp_neon", rounds, fp, fp_expected, sizeof fp);
    jostle_vector_neon(vector, rounds, FACTOR);
    same("jostle_vector_neon", rounds, vector, vector_expected, sizeof vector);
}

static void check_stream(uint64_t blocks)
{
    static _Alignas(64) uint64_t words[8 * 64];
    uint64_t expected = 0;
    for (unsigned word = 0; word < 8 * 64; word++)
        words[word] = word * K;
    for (unsigned word = 0; word < blocks * 64; word++)
        expected ^= words[word];
    uint64_t got = jostle_stream_load_neon((const uint8_t *)words, blocks);
    same("jostle_stream_load_neon", blocks, &got, &expected, sizeof got);
}

static void check_branch(uint64_t blocks)
{
    const uint64_t factor = 0x5851f42d4c957f2d;
    uint64_t expected = blocks * K, slot = 0;
    uint64_t got = jostle_branch(expected, blocks);
    for (uint64_t block = 0; block < blocks; block++) {
        expected = expected * factor + 2 * slot + 1;
        uint64_t bits = expected >> 48;
        if (bits & 1)
            expected += factor;
        if (bits & 2)
            expected ^= factor;
        slot = bits >> 8;
    }
    same("jostle_branch", blocks, &got, &expected, sizeof got);
}

int main(void)
{
    for (uint64_t rounds = 1; rounds <= 8; rounds++) {
        check_int(rounds);
        check_floats(rounds);
        check_stream(rounds);
        check_branch(rounds * 500);
    }
    if (failures == 0)
        printf("every aarch64 routine does what its twin does\n");
    return failures != 0;
}
