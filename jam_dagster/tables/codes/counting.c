/* Counts of records by their codes: those of a block of attributes in one pass over its columns,
 * from which the marginals within it are summed; sums of weights of records by their cells; and
 * sums of what records find in their cells. Plain C without dependencies; counting.py is its only
 * caller; counting.py and support.py have the same operations in NumPy for where no compiler was at
 * hand. */

#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* One library for every x86-64 machine: the loader takes the widest vectors that it has. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(ONE_VERSION)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* Raised with every change of what counting.py hands over: an old library is then left alone. */
int64_t jam_version(void) { return 3; }

/* No block has more attributes, as in covering.py. */
#define MOST 24

/* Records whose joint codes are computed at a time: they stay in the first-level cache. */
#define SLICE 2048

typedef struct {
    const void *const *columns;
    const int64_t *widths;
    const int64_t *shape;
    int64_t rows;
    int64_t blocks;
    const int64_t *starts;
    const int64_t *axes;
    const int64_t *target_starts;
    const int64_t *kept;
    void *const *targets;
    int64_t wide;
    int64_t next;
} counting;

typedef struct {
    counting *all;
    int32_t *spare;
} worker;

#define JOIN(TYPE)                                                                              \
    for (int64_t i = 0; i < n; i++) joint[i] = joint[i] * size + ((const TYPE *)column)[from + i];

/* joint = joint * size + the codes of a column of one, two or four bytes each. */
WIDEST static void join(
    uint32_t *restrict joint, const void *restrict column, int64_t width, uint32_t size,
    int64_t from, int64_t n
) {
    if (width == 1) {
        JOIN(uint8_t)
    } else if (width == 2) {
        JOIN(uint16_t)
    } else {
        JOIN(uint32_t)
    }
}

static void count_rows(const counting *all, int64_t block, void *counts, int64_t wide) {
    const int64_t *axes = all->axes + all->starts[block];
    const int64_t length = all->starts[block + 1] - all->starts[block];
    uint32_t joint[SLICE];
    for (int64_t from = 0; from < all->rows; from += SLICE) {
        const int64_t left = all->rows - from, n = left < SLICE ? left : SLICE;
        memset(joint, 0, (size_t)n * sizeof(uint32_t));
        for (int64_t a = 0; a < length; a++) {
            const int64_t axis = axes[a];
            const uint32_t size = (uint32_t)all->shape[axis];
            join(joint, all->columns[axis], all->widths[axis], size, from, n);
        }
        if (wide)
            for (int64_t i = 0; i < n; i++) ((int64_t *)counts)[joint[i]]++;
        else
            for (int64_t i = 0; i < n; i++) ((int32_t *)counts)[joint[i]]++;
    }
}

#define ADD_CELLS(TYPE)                                                                         \
    if (strides[last])                                                                          \
        for (int64_t j = 0; j < n; j++) ((TYPE *)target)[to + j] += cells[j];                   \
    else {                                                                                      \
        TYPE total = 0;                                                                         \
        for (int64_t j = 0; j < n; j++) total += cells[j];                                      \
        ((TYPE *)target)[to] += total;                                                          \
    }

/* target += the cells of a block, summed over the axes that the target lacks. */
WIDEST static void add_cells(
    const int32_t *cells, const int64_t *sizes, const int64_t *strides, int64_t length,
    void *target, int64_t wide
) {
    const int64_t last = length - 1, n = sizes[last];
    int64_t rows = 1, to = 0, index[MOST] = {0};
    for (int64_t a = 0; a < last; a++) rows *= sizes[a];
    for (int64_t r = 0; r < rows; r++, cells += n) {
        if (wide) {
            ADD_CELLS(int64_t)
        } else {
            ADD_CELLS(int32_t)
        }
        for (int64_t a = last - 1; a >= 0; a--) {
            to += strides[a];
            if (++index[a] < sizes[a]) break;
            to -= sizes[a] * strides[a];
            index[a] = 0;
        }
    }
}

/* Neighbouring axes that the target has, or lacks, are as one. */
static void add_block(const counting *all, int64_t block, int64_t target, const int32_t *cells) {
    const int64_t *axes = all->axes + all->starts[block];
    const int64_t length = all->starts[block + 1] - all->starts[block];
    const int64_t kept = all->kept[target];
    int64_t sizes[MOST], strides[MOST], has[MOST], joined = 0, stride = 1;
    for (int64_t a = 0; a < length; a++) {
        const int64_t size = all->shape[axes[a]], here = kept >> a & 1;
        if (joined && has[joined - 1] == here) {
            sizes[joined - 1] *= size;
        } else {
            sizes[joined] = size;
            has[joined++] = here;
        }
    }
    for (int64_t a = joined - 1; a >= 0; a--) {
        strides[a] = has[a] ? stride : 0;
        if (has[a]) stride *= sizes[a];
    }
    add_cells(cells, sizes, strides, joined, all->targets[target], all->wide);
}

static void *count_blocks(void *of) {
    counting *all = ((worker *)of)->all;
    int32_t *spare = ((worker *)of)->spare;
    for (;;) {
        const int64_t block = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED);
        if (block >= all->blocks) return NULL;
        const int64_t first = all->target_starts[block], end = all->target_starts[block + 1];
        const int64_t length = all->starts[block + 1] - all->starts[block];
        if (end == first + 1 && all->kept[first] == ((int64_t)1 << length) - 1) {
            count_rows(all, block, all->targets[first], all->wide);
            continue;
        }
        int64_t cells = 1;
        for (int64_t a = all->starts[block]; a < all->starts[block + 1]; a++)
            cells *= all->shape[all->axes[a]];
        memset(spare, 0, (size_t)cells * sizeof(int32_t));
        count_rows(all, block, spare, 0);
        for (int64_t target = first; target < end; target++) add_block(all, block, target, spare);
    }
}

/* Adds the counts of the records to all targets. Each target is of one block, so it does not matter
 * which of two threads counts it. A second one has a spare block of its own, or is not started. */
void jam_count(
    const void *const *columns, const int64_t *widths, const int64_t *shape, int64_t rows,
    int64_t blocks, const int64_t *starts, const int64_t *axes, const int64_t *target_starts,
    const int64_t *kept, void *const *targets, int64_t wide, int32_t *spare, int32_t *second_spare
) {
    counting all = {
        columns, widths, shape, rows, blocks, starts, axes, target_starts, kept, targets, wide, 0
    };
    worker first = {&all, spare}, second = {&all, second_spare};
    pthread_t thread;
    const int started = second_spare && !pthread_create(&thread, NULL, count_blocks, &second);
    count_blocks(&first);
    if (started) pthread_join(thread, NULL);
}

/* Marginals of records. Marginal m has the columns from starts[m] to starts[m + 1], and its cells
 * come after those of the marginals before it. */
typedef struct {
    const void *const *columns;
    const int64_t *widths;
    const int64_t *sizes;
    const int64_t *starts;
    int64_t marginals;
    int64_t rows;
} joined;

/* Writes the cell of each of some records in a marginal; returns the number of its cells. */
static int64_t join_all(
    const joined *of, int64_t marginal, int64_t from, int64_t n, uint32_t *restrict joint
) {
    int64_t cells = 1;
    memset(joint, 0, (size_t)n * sizeof(uint32_t));
    for (int64_t a = of->starts[marginal]; a < of->starts[marginal + 1]; a++) {
        join(joint, of->columns[a], of->widths[a], (uint32_t)of->sizes[a], from, n);
        cells *= of->sizes[a];
    }
    return cells;
}

/* Adds the weight of each record to its cell of each marginal, one record after the other. Two
 * marginals take turns: if many records in a row are in one cell, each waits for the one before. */
void jam_add_weights(
    const void *const *columns, const int64_t *widths, const int64_t *sizes, const int64_t *starts,
    int64_t marginals, int64_t rows, const double *weights, double *cells
) {
    const joined of = {columns, widths, sizes, starts, marginals, rows};
    uint32_t joint[2][SLICE];
    int64_t length = 0;
    for (int64_t m = 0; m < marginals; m += 2, cells += length)
        for (int64_t from = 0; from < rows; from += SLICE) {
            const int64_t left = rows - from, n = left < SLICE ? left : SLICE;
            const double *weight = weights + from;
            double *other = cells + (length = join_all(&of, m, from, n, joint[0]));
            if (m + 1 == marginals) {
                for (int64_t i = 0; i < n; i++) cells[joint[0][i]] += weight[i];
                continue;
            }
            length += join_all(&of, m + 1, from, n, joint[1]);
            for (int64_t i = 0; i < n; i++) {
                cells[joint[0][i]] += weight[i];
                other[joint[1][i]] += weight[i];
            }
        }
}

WIDEST static void look_up(
    double *restrict sums, const double *restrict cells, const uint32_t *restrict joint, int64_t n
) {
    for (int64_t i = 0; i < n; i++) sums[i] += cells[joint[i]];
}

/* Adds to the sum of each record what is in its cell of each marginal, one marginal after the
 * other. */
void jam_look_up(
    const void *const *columns, const int64_t *widths, const int64_t *sizes, const int64_t *starts,
    int64_t marginals, int64_t rows, const double *cells, double *sums
) {
    const joined of = {columns, widths, sizes, starts, marginals, rows};
    uint32_t joint[SLICE];
    for (int64_t from = 0; from < rows; from += SLICE) {
        const int64_t left = rows - from, n = left < SLICE ? left : SLICE;
        const double *here = cells;
        for (int64_t m = 0; m < marginals; m++) {
            const int64_t length = join_all(&of, m, from, n, joint);
            look_up(sums + from, here, joint, n);
            here += length;
        }
    }
}
