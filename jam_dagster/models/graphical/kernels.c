/* Inner loops of belief propagation: dense tables are multiplied by smaller tables and summed onto
 * others in one pass over memory. Beside them, the distance of a marginal from its counts, and the
 * inner loops of the search for rows, of the scores of TILT, of triangulations and of sampling. Plain
 * C without dependencies; kernels.py, row_search.py, expected_gain.py, tractability.py and
 * sampling.py are its only callers, and have the same operations in NumPy for where no compiler was
 * at hand. */

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* One library for every x86-64 machine: the loader takes the widest vectors that it has. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(ONE_VERSION)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* Raised with every change of what kernels.py hands over: an old library is then left alone. */
int64_t jam_version(void) { return 8; }

enum { READ = 0, SCALE = 1, ASSIGN = 2, RATIO = 3 };

/* No operation has more axes, sources or targets; kernels.py splits those that would. */
#define MOST 32

/* Cells from which on a second thread is worth its start. */
#define LARGE 262144

/* Strides are in cells, one for each axis of the table, 0 along axes that the other table lacks.
 * A table is contiguous, so the stride of its last axis is 1, and that of the others' is 0 or 1. */
typedef struct {
    double *table;
    int64_t mode;
    double factor;
    int64_t axes;
    const int64_t *sizes;
    int64_t sources;
    const double *const *source;
    const int64_t *source_strides;
    int64_t targets;
    double *const *target;
    const int64_t *target_strides;
    const int64_t *target_cells;
    double *const *spare;
    double *row;
} operation;

static inline void multiply_row(double *restrict to, const double *restrict by, int64_t n) {
    for (int64_t j = 0; j < n; j++) to[j] *= by[j];
}

static inline void add_row(double *restrict to, const double *restrict row, int64_t n) {
    for (int64_t j = 0; j < n; j++) to[j] += row[j];
}

/* Eight partial sums in a fixed order: the same result whatever the width of the vectors. */
static inline double sum_row(const double *row, int64_t n) {
    double part[8] = {0};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; k++) part[k] += row[j + k];
    for (int k = 0; j < n; j++, k++) part[k] += row[j];
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

/* table *= factor * product of sources (SCALE), the product alone (ASSIGN), or as if (READ);
 * each target += the sum of the result over the axes that the target lacks. */
WIDEST static void scale_and_sum(const operation *op) {
    const int64_t last = op->axes - 1;
    const int64_t n = op->axes ? op->sizes[last] : 1;
    int64_t rows = 1;
    for (int64_t a = 0; a < last; a++) rows *= op->sizes[a];

    const double *in[MOST];
    double *out[MOST];
    int64_t index[MOST] = {0};
    const int64_t sources = op->sources, targets = op->targets, axes = op->axes;
    for (int64_t s = 0; s < sources; s++) in[s] = op->source[s];
    for (int64_t t = 0; t < targets; t++) out[t] = op->target[t];
    double *cells = op->table;

    for (int64_t r = 0; r < rows; r++, cells += n) {
        double constant = op->factor;
        const double *first = NULL;
        int64_t vectors = 0;
        for (int64_t s = 0; s < sources; s++) {
            if (axes && op->source_strides[s * axes + last]) {
                if (!vectors++) first = in[s];
            } else {
                constant *= *in[s];
            }
        }
        double *row = cells;
        if (op->mode == ASSIGN) {
            if (first)
                for (int64_t j = 0; j < n; j++) row[j] = constant * first[j];
            else
                for (int64_t j = 0; j < n; j++) row[j] = constant;
        } else if (sources || constant != 1.0) {
            row = op->mode == READ ? op->row : cells;
            if (first)
                for (int64_t j = 0; j < n; j++) row[j] = cells[j] * (constant * first[j]);
            else
                for (int64_t j = 0; j < n; j++) row[j] = cells[j] * constant;
        }
        if (vectors > 1)
            for (int64_t s = 0; s < sources; s++)
                if (in[s] != first && op->source_strides[s * axes + last])
                    multiply_row(row, in[s], n);

        double total = 0.0;
        int summed = 0;
        for (int64_t t = 0; t < targets; t++) {
            if (axes && op->target_strides[t * axes + last]) {
                add_row(out[t], row, n);
            } else {
                if (!summed++) total = sum_row(row, n);
                *out[t] += total;
            }
        }

        for (int64_t a = last - 1; a >= 0; a--) {
            const int64_t back = ++index[a] < op->sizes[a] ? 0 : op->sizes[a];
            for (int64_t s = 0; s < sources; s++) {
                const int64_t stride = op->source_strides[s * axes + a];
                in[s] += stride - back * stride;
            }
            for (int64_t t = 0; t < targets; t++) {
                const int64_t stride = op->target_strides[t * axes + a];
                out[t] += stride - back * stride;
            }
            if (!back) break;
            index[a] = 0;
        }
    }
}

/* Runs two halves of some work at once. Numbers too small for full precision are zero meanwhile:
 * arithmetic on them would be a hundred times slower. */
typedef struct {
    void (*work)(void *);
    void *part;
} task;

static void run_task(const task *one) {
#if defined(__SSE2__)
    const unsigned int control = _mm_getcsr();
    _mm_setcsr(control | 0x8040);
#endif
    one->work(one->part);
#if defined(__SSE2__)
    _mm_setcsr(control);
#endif
}

static void *thread_task(void *one) {
    run_task(one);
    return NULL;
}

static void run_both(task first, task second) {
    pthread_t thread;
    const int started = !pthread_create(&thread, NULL, thread_task, &second);
    run_task(&first);
    if (started)
        pthread_join(thread, NULL);
    else
        run_task(&second);
}

static void scale_and_sum_part(void *op) { scale_and_sum(op); }

/* Splits the first axis that can be split. The second half sums onto tables of its own where both
 * would sum onto the same cells, so the result does not depend on which half is quicker. */
static void scale_and_sum_halves(const operation *op, int64_t axis) {
    const double *sources[MOST];
    double *targets[MOST];
    int64_t first_sizes[MOST], second_sizes[MOST];
    operation first = *op, second = *op;
    const int64_t half = op->sizes[axis] / 2;
    int64_t step = 1;
    for (int64_t a = op->axes - 1; a > axis; a--) step *= op->sizes[a];
    memcpy(first_sizes, op->sizes, (size_t)op->axes * sizeof(int64_t));
    memcpy(second_sizes, op->sizes, (size_t)op->axes * sizeof(int64_t));
    first_sizes[axis] = half;
    second_sizes[axis] -= half;
    first.sizes = first_sizes;
    second.sizes = second_sizes;
    second.table += half * step;
    second.row += op->sizes[op->axes - 1];
    for (int64_t s = 0; s < op->sources; s++)
        sources[s] = op->source[s] + half * op->source_strides[s * op->axes + axis];
    for (int64_t t = 0; t < op->targets; t++) {
        const int64_t stride = op->target_strides[t * op->axes + axis];
        targets[t] = stride ? op->target[t] + half * stride : op->spare[t];
        if (!stride) memset(targets[t], 0, (size_t)op->target_cells[t] * sizeof(double));
    }
    second.source = sources;
    second.target = targets;
    run_both((task){scale_and_sum_part, &first}, (task){scale_and_sum_part, &second});
    for (int64_t t = 0; t < op->targets; t++)
        if (targets[t] == op->spare[t]) add_row(op->target[t], op->spare[t], op->target_cells[t]);
}

static void run_operation(const operation *op) {
    for (int64_t t = 0; t < op->targets; t++)
        memset(op->target[t], 0, (size_t)op->target_cells[t] * sizeof(double));
    int64_t axis = 0, cells = 1;
    for (int64_t a = 0; a < op->axes; a++) cells *= op->sizes[a];
    while (axis < op->axes && op->sizes[axis] == 1) axis++;
    if (cells >= LARGE && axis < op->axes - 1)
        scale_and_sum_halves(op, axis);
    else
        run_task(&(task){scale_and_sum_part, (void *)op});
}

/* table = source[0] / source[1], zero where both are: a cell that has no mass stays without. */
static void ratio(const operation *op) {
    const double *above = op->source[0], *below = op->source[1];
    const int64_t n = op->sizes[0];
    for (int64_t j = 0; j < n; j++) op->table[j] = below[j] > 0.0 ? above[j] / below[j] : 0.0;
}

/* Eight numbers side by side; the compiler makes of them what the machine has. */
typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));

#ifndef ONE_VERSION
static inline __attribute__((always_inline)) void add_products_32(
    double *to, const double *shares, const double *from, int64_t stride, int64_t n
) {
    eight a = *(eight *)to, b = *(eight *)(to + 8), c = *(eight *)(to + 16), d = *(eight *)(to + 24);
    for (int64_t i = 0; i < n; i++, from += stride) {
        const double share = shares[i];
        a += share * *(const eight *)from;
        b += share * *(const eight *)(from + 8);
        c += share * *(const eight *)(from + 16);
        d += share * *(const eight *)(from + 24);
    }
    *(eight *)to = a, *(eight *)(to + 8) = b, *(eight *)(to + 16) = c, *(eight *)(to + 24) = d;
}
#endif

static inline __attribute__((always_inline)) void add_products_8(
    double *to, const double *shares, const double *from, int64_t stride, int64_t n
) {
    eight a = *(eight *)to;
    for (int64_t i = 0; i < n; i++, from += stride) a += shares[i] * *(const eight *)from;
    *(eight *)to = a;
}

/* product[kept, fresh] = sum over the rest of table's axes of table[...] * other[..., fresh].
 * Strides are in cells along the axes of the table; fresh is the last axis of other and product. */
typedef struct {
    const double *table;
    int64_t axes;
    const int64_t *sizes;
    const double *other;
    const int64_t *other_strides;
    double *product;
    const int64_t *product_strides;
    int64_t fresh;
} contraction;

WIDEST static void contract(const contraction *of) {
    const int64_t axes = of->axes, fresh = of->fresh;
    const int64_t *sizes = of->sizes;
    const int64_t *other_strides = of->other_strides, *product_strides = of->product_strides;
    const double *table = of->table, *other = of->other;
    double *product = of->product;
    const int64_t last = axes - 1;
    const int64_t n = axes ? sizes[last] : 1;
    const int64_t along_other = axes ? other_strides[last] : 0;
    const int64_t along_product = axes ? product_strides[last] : 0;
    int64_t rows = 1;
    for (int64_t a = 0; a < last; a++) rows *= sizes[a];
    int64_t index[MOST] = {0};
    for (int64_t r = 0; r < rows; r++, table += n) {
        int64_t done = 0;
        if (!along_product) {
            /* All of the row goes to one place, which stays in registers. */
#ifndef ONE_VERSION
            for (; done + 32 <= fresh; done += 32)
                add_products_32(product + done, table, other + done, along_other, n);
#endif
            for (; done + 8 <= fresh; done += 8)
                add_products_8(product + done, table, other + done, along_other, n);
        }
        for (int64_t i = 0; done < fresh && i < n; i++) {
            const double share = table[i];
            if (share == 0.0) continue;
            const double *restrict from = other + i * along_other;
            double *restrict to = product + i * along_product;
            for (int64_t j = done; j < fresh; j++) to[j] += share * from[j];
        }
        for (int64_t a = last - 1; a >= 0; a--) {
            const int64_t back = ++index[a] < sizes[a] ? 0 : sizes[a];
            other += other_strides[a] - back * other_strides[a];
            product += product_strides[a] - back * product_strides[a];
            if (!back) break;
            index[a] = 0;
        }
    }
}

static void contract_part(void *of) { contract(of); }

void jam_contract(
    const double *table, int64_t axes, const int64_t *sizes,
    const double *other, const int64_t *other_strides,
    double *product, const int64_t *product_strides, int64_t product_cells, int64_t fresh
) {
    memset(product, 0, (size_t)product_cells * sizeof(double));
    int64_t products = fresh;
    for (int64_t a = 0; a < axes; a++) products *= sizes[a];
    contraction first = {
        table, axes, sizes, other, other_strides, product, product_strides, fresh
    };
    if (products < 8 * LARGE || fresh < 16) {
        run_task(&(task){contract_part, &first});
        return;
    }
    /* Each half has columns of its own, in whole blocks. */
    contraction second = first;
    first.fresh = fresh / 16 * 8;
    second.other += first.fresh;
    second.product += first.fresh;
    second.fresh -= first.fresh;
    run_both((task){contract_part, &first}, (task){contract_part, &second});
}

/* Adds |counts - total * model| along a row onto eight partial sums. */
static inline __attribute__((always_inline)) void add_distances(
    double *part, const double *model, int64_t step, const int32_t *counts, int64_t stride,
    int64_t n, double total
) {
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int64_t k = 0; k < 8; k++)
            part[k] += fabs(counts[(j + k) * stride] - total * model[(j + k) * step]);
    for (int64_t k = 0; j < n; j++, k++)
        part[k] += fabs(counts[j * stride] - total * model[j * step]);
}

/* The sum over cells of |counts - total * model|, for counts of 4 or 8 bytes. `layout` has for each
 * axis its size, and its strides in cells of the model and of the counts. Eight partial sums in a
 * fixed order, as of sum_row. */
WIDEST double jam_distance(
    const double *model, const char *counts, int64_t bytes, int64_t axes, const int64_t *layout,
    double total
) {
    const int64_t last = axes - 1;
    const int64_t n = axes ? layout[3 * last] : 1;
    const int64_t step = axes ? layout[3 * last + 1] : 1, stride = axes ? layout[3 * last + 2] : 1;
    int64_t rows = 1, index[MOST] = {0};
    for (int64_t a = 0; a < last; a++) rows *= layout[3 * a];
    double part[8] = {0};
    for (int64_t r = 0; r < rows; r++) {
        if (bytes == 8) {
            const int64_t *wide = (const int64_t *)counts;
            for (int64_t j = 0; j < n; j++)
                part[j % 8] += fabs((double)wide[j * stride] - total * model[j * step]);
        } else if (step == 1 && stride == 1) {
            add_distances(part, model, 1, (const int32_t *)counts, 1, n, total);
        } else {
            add_distances(part, model, step, (const int32_t *)counts, stride, n, total);
        }
        for (int64_t a = last - 1; a >= 0; a--) {
            const int64_t back = ++index[a] < layout[3 * a] ? 0 : layout[3 * a];
            model += layout[3 * a + 1] * (1 - back);
            counts += layout[3 * a + 2] * (1 - back) * bytes;
            if (!back) break;
            index[a] = 0;
        }
    }
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

void jam_run(const operation *operations, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (operations[i].mode == RATIO)
            ratio(&operations[i]);
        else
            run_operation(&operations[i]);
    }
}

/* The marginals that rows are counted in, their cells one after another in one table. Marginal t
 * has `axes[t]` attributes; positions, strides and offsets are of cells, `most` to a marginal. */
typedef struct {
    int64_t marginals;
    int64_t most;
    const int64_t *axes;
    const int64_t *positions;
    const int64_t *strides;
    const int64_t *offsets;
    const int64_t *weights;
} counted;

static inline int64_t cell_of(const counted *in, int64_t t, const int32_t *row) {
    const int64_t *position = in->positions + t * in->most, *stride = in->strides + t * in->most;
    int64_t cell = in->offsets[t];
    for (int64_t a = 0; a < in->axes[t]; a++) cell += row[position[a]] * stride[a];
    return cell;
}

/* The change of |deviation| where a count changes by `step`. */
static inline int64_t change(int32_t deviation, int32_t step) {
    const int64_t before = deviation, after = before + step;
    return (after < 0 ? -after : after) - (before < 0 ? -before : before);
}

/* Offers each row of `others` in place of the next row, from the first again after the last, and
 * takes what brings the deviations down. Returns the number of swaps. */
int64_t jam_swap_rows(
    const counted *in, int32_t *deviations, int32_t unit,
    int32_t *rows, int64_t count, const int32_t *others, int64_t offered, int64_t width
) {
    int64_t swaps = 0;
    for (int64_t k = 0; k < offered; k++) {
        int32_t *row = rows + k % count * width;
        const int32_t *other = others + k * width;
        int64_t whole = 0;
        for (int64_t t = 0; t < in->marginals; t++) {
            const int64_t from = cell_of(in, t, row), to = cell_of(in, t, other);
            if (from == to) continue;
            whole += in->weights[t] * (change(deviations[from], -unit) + change(deviations[to], unit));
        }
        if (whole >= 0) continue;
        for (int64_t t = 0; t < in->marginals; t++) {
            deviations[cell_of(in, t, row)] -= unit;
            deviations[cell_of(in, t, other)] += unit;
        }
        memcpy(row, other, (size_t)width * sizeof(int32_t));
        swaps++;
    }
    return swaps;
}

/* A candidate of TILT: its marginal in the model, as fractions, and in the private table, both
 * contiguous; counts have 4 or 8 bytes, and `nonzero` of them are not zero. `weights` has one number
 * for each set of its axes, by the bits of the set, the first axis the lowest bit. */
typedef struct {
    const double *model;
    const char *counts;
    int64_t bytes;
    int64_t nonzero;
    int64_t axes;
    const int64_t *sizes;
    const double *weights;
    const double *strengths;
    int64_t strength_count;
    double variance;
    double records;
    double *space;
    double gain;
} candidate;

/* to[outer, inner] += sum over n of from[outer, n, inner]. */
static inline __attribute__((always_inline)) void add_axis(
    double *restrict to, const double *restrict from, int64_t outer, int64_t n, int64_t inner
) {
    if (inner == 1) {
        for (int64_t o = 0; o < outer; o++) to[o] += sum_row(from + o * n, n);
        return;
    }
    for (int64_t o = 0; o < outer; o++, to += inner)
        for (int64_t i = 0; i < n; i++, from += inner) add_row(to, from, inner);
}

#define TWO_OVER_PI 0.63661977236758134308

/* The sum over cells of |deviation| - sqrt(((1 - f) deviation)^2 + (2 / pi) noise), where 1 - f is
 * ridge * let_through / whole: m f is m - ridge f in each cell that was summed. */
static inline double improved(
    const double *restrict deviation, const double *restrict let_through,
    const double *restrict whole, const double *restrict noise, double ridge, double variance,
    int64_t n
) {
    double sums[8] = {0};
    const double scale = TWO_OVER_PI * variance;
    for (int64_t j = 0; j < n; j += 8) {
        double cell[8];
        const int64_t more = n - j < 8 ? n - j : 8;
        for (int64_t k = 0; k < more; k++) {
            const double size = whole[j + k], d = deviation[j + k];
            const double left = size > 0.0 ? d * (ridge * let_through[j + k] / size) : d;
            cell[k] = fabs(d) - sqrt(left * left + scale * noise[j + k]);
        }
        for (int64_t k = 0; k < more; k++) sums[k] += cell[k];
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* No candidate has more axes. */
#define MOST_AXES 16

/* About so many cells of a candidate are looked at at a time: with what is made of them they fit the
 * cache. Strengths are taken in pairs, whose ratios take one division. */
#define AT_A_TIME 8192
#define PAIR 2

/* The part of the score that depends on the cells that hold records, for one strength: what the term
 * of a cell of m expected and x counted records is more than that of an empty one. An empty cell has
 * |m| - sqrt(m^2 ridge^2 + scale m^2) / (m + ridge), which is m - f sqrt(ridge^2 + scale). */
static inline __attribute__((always_inline)) double of_held(
    const double *restrict expected, const double *restrict counted, int64_t n, double ridge,
    double scale
) {
    double sums[8] = {0};
    const double empty = sqrt(ridge * ridge + scale);
    for (int64_t j = 0; j < n; j += 8) {
        double cell[8];
        const int64_t more = n - j < 8 ? n - j : 8;
        for (int64_t k = 0; k < more; k++) {
            const double m = expected[j + k], d = counted[j + k] - m, left = d * ridge;
            const double error = sqrt(left * left + scale * m * m) - m * empty;
            cell[k] = fabs(d) - m - error / (m + ridge);
        }
        for (int64_t k = 0; k < more; k++) sums[k] += cell[k];
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* Takes the counts of some cells as numbers, and notes those that are not zero, with what the model
 * expects there. Returns how many have been noted. */
static inline __attribute__((always_inline)) int64_t take_counts(
    double *restrict to, const char *counts, int64_t bytes, int64_t at, int64_t n,
    const double *restrict model, double *restrict expected, double *restrict counted, int64_t held
) {
    const int32_t *narrow = (const int32_t *)counts + at;
    const int64_t *wide = (const int64_t *)counts + at;
    if (bytes == 8)
        for (int64_t j = 0; j < n; j++) to[j] = (double)wide[j];
    else
        for (int64_t j = 0; j < n; j++) to[j] = narrow[j];
    for (int64_t j = 0; j < n; j += 8) {
        const int64_t more = n - j < 8 ? n - j : 8;
        double any = 0.0;
        for (int64_t k = 0; k < more; k++) any += to[j + k];
        if (any == 0.0) continue;
        for (int64_t k = j; k < j + more; k++)
            if (to[k] != 0.0) {
                expected[held] = model[k];
                counted[held++] = to[k];
            }
    }
    return held;
}

WIDEST static void expected_gain(candidate *of) {
    const int64_t axes = of->axes, sets = (int64_t)1 << axes, whole = sets - 1;
    int64_t *cells = (int64_t *)of->space, *start = cells + sets, *from = start + sets;
    int64_t total = 0;
    for (int64_t s = 1; s < sets; s++) {
        cells[s] = 1;
        for (int64_t a = 0; a < axes; a++)
            if (s >> a & 1) cells[s] *= of->sizes[a];
        start[s] = total;
        if (s != whole) total += cells[s];
    }
    /* Each set is summed from the smallest that has one axis more; -1 where nobody asks for it. */
    for (int64_t s = 1; s < sets; s++) {
        from[s] = -1;
        if (s == whole) continue;
        int64_t least = -1;
        for (int64_t a = 0; a < axes; a++)
            if (!(s >> a & 1) && (least < 0 || cells[s | (int64_t)1 << a] < cells[least]))
                least = s | (int64_t)1 << a;
        from[s] = least;
    }
    char wanted[1 << MOST_AXES];
    for (int64_t s = 0; s < sets; s++) wanted[s] = of->weights[s] > 0.0;
    for (int64_t s = 1; s < whole; s++)
        if (wanted[s]) wanted[from[s]] = 1;

    /* The candidate is divided along its first axis. */
    const int64_t n = cells[whole], slice = n / of->sizes[0];
    const int64_t slices = slice >= AT_A_TIME ? 1 : AT_A_TIME / slice;
    const int64_t block = (slices < of->sizes[0] ? slices : of->sizes[0]) * slice;
    double *deviation = of->space + 3 * sets, *model = deviation + total;
    double *noise[PAIR], *through[PAIR], *squares[PAIR], *parts[PAIR];
    double *next = model + total;
    for (int64_t p = 0; p < PAIR; p++, next += 2 * total) noise[p] = next, through[p] = next + total;
    double *here = next;
    next += block;
    for (int64_t p = 0; p < PAIR; p++, next += 2 * block) squares[p] = next, parts[p] = next + block;
    double *expected = next, *counted = expected + of->nonzero;
    const double scale = TWO_OVER_PI * of->variance;
    double all = 0.0;
    int64_t held = 0;

    of->gain = -INFINITY;
    for (int64_t k = -PAIR; k < of->strength_count; k += PAIR) {
        const int last = k + 1 >= of->strength_count;
        double ridges[PAIR] = {0}, sums[PAIR] = {0};
        for (int64_t p = 0; k >= 0 && p < PAIR; p++)
            ridges[p] = of->strengths[last ? k : k + p] * of->variance / of->records;
        /* First the sums of the counts and the model, then for each strength those of f^2 and f. */
        double *to[2 * PAIR] = {deviation, model}, *blocks[2 * PAIR] = {squares[0], here};
        int64_t tables = 2;
        if (k >= 0) {
            tables = last ? 2 : 2 * PAIR;
            for (int64_t p = 0; p < PAIR; p++) {
                to[2 * p] = noise[p], to[2 * p + 1] = through[p];
                blocks[2 * p] = squares[p], blocks[2 * p + 1] = parts[p];
            }
        }
        for (int64_t t = 0; t < tables; t++) memset(to[t], 0, (size_t)total * sizeof(double));
        for (int64_t at = 0; at < n; at += block) {
            const int64_t more = n - at < block ? n - at : block;
            const double *fractions = of->model + at;
            for (int64_t j = 0; j < more; j++) here[j] = of->records * fractions[j];
            if (k < 0) {
                held = take_counts(squares[0], of->counts, of->bytes, at, more, here, expected,
                                   counted, held);
                all += sum_row(here, more);
            } else {
                const double one = ridges[0], other = ridges[1];
                double *restrict f0 = parts[0], *restrict s0 = squares[0];
                double *restrict f1 = parts[1], *restrict s1 = squares[1];
                for (int64_t j = 0; j < more; j++) {
                    const double m = here[j], a = m + one, b = m + other, share = m / (a * b);
                    const double f = share * b, g = share * a;
                    f0[j] = f, s0[j] = f * f, f1[j] = g, s1[j] = g * g;
                }
                for (int64_t p = 0; p < PAIR; p++) sums[p] += sum_row(parts[p], more);
            }
            for (int64_t a = 0; a < axes && axes > 1; a++) {
                const int64_t s = whole & ~((int64_t)1 << a);
                if (!wanted[s]) continue;
                int64_t outer = more / slice, inner = 1;
                for (int64_t b = 1; b < a; b++) outer *= of->sizes[b];
                for (int64_t b = a + 1; b < axes; b++) inner *= of->sizes[b];
                for (int64_t t = 0; t < tables; t++)
                    if (a == 0)
                        add_axis(to[t] + start[s], blocks[t], 1, outer, inner);
                    else
                        add_axis(to[t] + start[s] + at / of->sizes[a], blocks[t], outer,
                                 of->sizes[a], inner);
            }
        }
        for (int64_t s = whole - 1; s > 0; s--) {
            if (!wanted[s] || from[s] == whole) continue;
            const int64_t larger = from[s], lost = larger & ~s;
            int64_t outer = 1, size = 1, inner = 1;
            for (int64_t a = 0; a < axes; a++) {
                const int64_t bit = (int64_t)1 << a;
                if (bit == lost) size = of->sizes[a];
                else if (larger & bit && bit < lost) outer *= of->sizes[a];
                else if (larger & bit) inner *= of->sizes[a];
            }
            for (int64_t t = 0; t < tables; t++)
                add_axis(to[t] + start[s], to[t] + start[larger], outer, size, inner);
        }
        if (k < 0) {
            for (int64_t j = 0; j < total; j++) deviation[j] -= model[j];
            continue;
        }
        for (int64_t p = 0; p < (last ? 1 : PAIR); p++) {
            double gain = 0.0;
            if (of->weights[whole] > 0.0)
                gain += of->weights[whole]
                    * (all - sums[p] * sqrt(ridges[p] * ridges[p] + scale)
                       + of_held(expected, counted, held, ridges[p], scale));
            for (int64_t s = 1; s < whole; s++)
                if (of->weights[s] > 0.0)
                    gain += of->weights[s]
                        * improved(deviation + start[s], through[p] + start[s], model + start[s],
                                   noise[p] + start[s], ridges[p], of->variance, cells[s]);
            if (gain > of->gain) of->gain = gain;
        }
    }
}

static void expected_gain_part(void *of) { expected_gain(of); }

double jam_expected_gain(
    const double *model, const char *counts, int64_t bytes, int64_t nonzero, int64_t axes,
    const int64_t *sizes, const double *weights, const double *strengths, int64_t strength_count,
    double variance, double records, double *space
) {
    candidate one = {model, counts, bytes, nonzero, axes, sizes, weights, strengths,
                     strength_count, variance, records, space, 0.0};
    run_task(&(task){expected_gain_part, &one});
    return one.gain;
}

/* Most words of a set of attributes. */
#define WORDS 4

/* What is known of a graph's elimination, as in tractability.py, and further cliques, of which each
 * is added alone. Sets of attributes are words; those of `neighbours_at` have the shape
 * (words, steps, attributes), and `cost_at` (steps, attributes). */
typedef struct {
    int64_t attributes;
    int64_t words;
    int64_t components;
    const double *sizes;
    const int64_t *component;
    const int64_t *step;
    const double *clique_cells;
    const uint64_t *neighbours_at;
    const double *cost_at;
    const uint8_t *gaining;
    const uint8_t *joined;
    const double *limit;
    double *within;
    uint8_t *exact;
    int64_t start;
    int64_t stop;
} elimination;

typedef uint64_t set[WORDS];

/* Numbers of cells are exact below this, and those that are not are cut off. */
#define EXACT 9007199254740992.0

/* Makes an attribute adjacent to a clique, without itself and the attribute that is gone, if any. */
static inline void connect_to(
    set *neighbours, double *cost, int64_t a, const set clique, int64_t gone, int64_t words,
    const double *sizes
) {
    uint64_t *of = neighbours[a];
    double cells = gone < 0 ? cost[a] : cost[a] / sizes[gone];
    for (int64_t k = 0; k < words; k++) {
        uint64_t fill = clique[k] & ~of[k];
        if (k == a / 64) fill &= ~(1ull << a % 64);
        of[k] |= fill;
        for (; fill; fill &= fill - 1) cells *= sizes[64 * k + __builtin_ctzll(fill)];
    }
    if (gone >= 0) of[gone / 64] &= ~(1ull << gone % 64);
    if (!(cost[a] < EXACT)) {
        cells = sizes[a];
        for (int64_t k = 0; k < words; k++)
            for (uint64_t held = of[k]; held; held &= held - 1)
                cells *= sizes[64 * k + __builtin_ctzll(held)];
    }
    cost[a] = cells;
}

static void eliminate(const elimination *of, int64_t one) {
    const int64_t width = of->attributes, words = of->words;
    const uint8_t *gaining = of->gaining + one * width;
    const uint8_t *joined = of->joined + one * of->components;
    set neighbours[64 * WORDS], left = {0}, clique = {0};
    double cost[64 * WORDS], total = 0.0;

    int64_t first = width;
    for (int64_t a = 0; a < width; a++)
        if (gaining[a]) {
            clique[a / 64] |= 1ull << a % 64;
            if (of->step[a] < first) first = of->step[a];
        }
    for (int64_t a = 0; a < width; a++) {
        const int concerned = joined[of->component[a]];
        for (int64_t k = 0; k < WORDS; k++)
            neighbours[a][k] =
                k < words ? of->neighbours_at[(k * width + first) * width + a] : 0;
        cost[a] = concerned ? of->cost_at[first * width + a] : INFINITY;
        if (concerned && of->step[a] < first) total += of->clique_cells[a];
        if (concerned && of->step[a] >= first) left[a / 64] |= 1ull << a % 64;
    }
    for (int64_t a = 0; a < width; a++)
        if (gaining[a]) connect_to(neighbours, cost, a, clique, -1, words, of->sizes);
    for (;;) {
        int64_t chosen = 0;
        for (int64_t a = 1; a < width; a++)
            if (cost[a] < cost[chosen]) chosen = a;
        set around;
        memcpy(around, neighbours[chosen], sizeof(set));
        memcpy(clique, around, sizeof(set));
        clique[chosen / 64] |= 1ull << chosen % 64;
        left[chosen / 64] &= ~(1ull << chosen % 64);
        /* Only eliminated attributes can have the neighbours that make up this clique. */
        int known = 0;
        for (int64_t a = 0; a < width && !known; a++)
            known = neighbours[a][0] == clique[0] && !memcmp(neighbours[a], clique, sizeof(set));
        if (!known) total += cost[chosen];
        int done = 1;
        for (int64_t k = 0; k < words; k++) done &= !(left[k] & ~around[k]);
        const int over = !(total <= of->limit[one]);
        /* The rest inside this clique makes no other maximal one. */
        if (over || done) {
            of->within[one] = total;
            of->exact[one] = !over;
            return;
        }
        cost[chosen] = INFINITY;
        for (int64_t k = 0; k < words; k++)
            for (uint64_t rest = around[k]; rest; rest &= rest - 1)
                connect_to(neighbours, cost, 64 * k + __builtin_ctzll(rest), around, chosen, words,
                           of->sizes);
    }
}

static void eliminate_part(void *of) {
    const elimination *given = of;
    for (int64_t one = given->start; one < given->stop; one++) eliminate(given, one);
}

/* Eliminations from which on a second thread is worth its start. */
#define MANY 64

void jam_grown(
    int64_t attributes, int64_t words, int64_t components, const double *sizes,
    const int64_t *component, const int64_t *step, const double *clique_cells,
    const uint64_t *neighbours_at, const double *cost_at, const uint8_t *gaining,
    const uint8_t *joined, const double *limit, int64_t count, double *within, uint8_t *exact
) {
    elimination all = {attributes, words,   components, sizes,  component, step,
                       clique_cells, neighbours_at, cost_at, gaining, joined, limit,
                       within,     exact,   0,          count};
    if (count < MANY) {
        eliminate_part(&all);
        return;
    }
    elimination rest = all;
    all.stop = rest.start = count / 2;
    run_both((task){eliminate_part, &all}, (task){eliminate_part, &rest});
}

/* Puts rows of one group together, in the order in which they come: `starts` gets where each group
 * starts and, last, the number of rows; `next` is space for as many numbers as there are groups. */
void jam_grouped(
    int64_t rows, int64_t groups, const uint32_t *group, const int32_t *order, int64_t *starts,
    int64_t *next, int32_t *grouped
) {
    memset(starts, 0, (size_t)(groups + 1) * sizeof(int64_t));
    for (int64_t i = 0; i < rows; i++) starts[group[i] + 1]++;
    for (int64_t g = 0; g < groups; g++) starts[g + 1] += starts[g];
    memcpy(next, starts, (size_t)groups * sizeof(int64_t));
    for (int64_t i = 0; i < rows; i++) grouped[next[group[order[i]]]++] = order[i];
}

/* Chooses a cell for each row of some groups, by stratified sampling, as sampling.py has it. A row
 * of `table` has the weights of a group's cells, `within` a place in its stratum for each row. The
 * code of the row at a place is written where `order` says, or there; `space` holds `width`. */
void jam_stratified(
    int64_t groups, int64_t width, const double *table, const int64_t *starts, const double *within,
    const int32_t *order, void *codes, int64_t bytes, double *space
) {
    for (int64_t g = 0; g < groups; g++) {
        const double *weights = table + g * width, below = nextafter((double)g + 1.0, 0.0);
        const int64_t first = starts[g], count = starts[g + 1] - first;
        double sum = 0.0;
        for (int64_t j = 0; j < width; j++) space[j] = sum += weights[j];
        for (int64_t j = 0; j < width; j++) space[j] = space[j] / sum + (double)g;
        int64_t cell = 0;
        for (int64_t i = 0; i < count; i++) {
            double place = (double)g + ((double)i + within[first - starts[0] + i]) / (double)count;
            if (place > below) place = below;
            while (cell < width - 1 && space[cell] <= place) cell++;
            const int64_t row = order == NULL ? first + i : order[first + i];
            if (bytes == 1) ((uint8_t *)codes)[row] = (uint8_t)cell;
            else if (bytes == 2) ((uint16_t *)codes)[row] = (uint16_t)cell;
            else ((uint32_t *)codes)[row] = (uint32_t)cell;
        }
    }
}
