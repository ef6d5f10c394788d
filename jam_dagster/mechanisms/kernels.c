/* Inner loops of belief propagation: dense tables are multiplied by smaller tables and summed onto
 * others in one pass over memory. Plain C without dependencies; kernels.py is its only caller and
 * has the same operations in NumPy for where no compiler was at hand. */

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
int64_t jam_version(void) { return 1; }

enum { READ = 0, SCALE = 1, ASSIGN = 2, RATIO = 3 };

/* No operation has more axes, sources or targets; kernels.py splits those that would. */
#define MOST 32

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
 * each target = the sum of the result over the axes that the target lacks. */
WIDEST static void scale_and_sum(const operation *op) {
    const int64_t last = op->axes - 1;
    const int64_t n = op->axes ? op->sizes[last] : 1;
    int64_t rows = 1;
    for (int64_t a = 0; a < last; a++) rows *= op->sizes[a];
    for (int64_t t = 0; t < op->targets; t++)
        memset(op->target[t], 0, (size_t)op->target_cells[t] * sizeof(double));

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

/* table = source[0] / source[1], zero where both are: a cell that has no mass stays without. */
static void ratio(const operation *op) {
    const double *above = op->source[0], *below = op->source[1];
    const int64_t n = op->sizes[0];
    for (int64_t j = 0; j < n; j++) op->table[j] = below[j] > 0.0 ? above[j] / below[j] : 0.0;
}

/* product[kept, fresh] = sum over the rest of table's axes of table[...] * other[..., fresh].
 * Strides are in cells along the axes of the table; fresh is the last axis of other and product. */
WIDEST void jam_contract(
    const double *table, int64_t axes, const int64_t *sizes,
    const double *other, const int64_t *other_strides,
    double *product, const int64_t *product_strides, int64_t product_cells, int64_t fresh
) {
    const int64_t last = axes - 1;
    const int64_t n = axes ? sizes[last] : 1;
    const int64_t along_other = axes ? other_strides[last] : 0;
    const int64_t along_product = axes ? product_strides[last] : 0;
    int64_t rows = 1;
    for (int64_t a = 0; a < last; a++) rows *= sizes[a];
    memset(product, 0, (size_t)product_cells * sizeof(double));
    int64_t index[MOST] = {0};
    for (int64_t r = 0; r < rows; r++, table += n) {
        for (int64_t i = 0; i < n; i++) {
            const double share = table[i];
            if (share == 0.0) continue;
            const double *restrict from = other + i * along_other;
            double *restrict to = product + i * along_product;
            for (int64_t j = 0; j < fresh; j++) to[j] += share * from[j];
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

void jam_run(const operation *operations, int64_t count) {
#if defined(__SSE2__)
    /* Probabilities below 1e-308 are zero: arithmetic on them would be a hundred times slower. */
    const unsigned int control = _mm_getcsr();
    _mm_setcsr(control | 0x8040);
#endif
    for (int64_t i = 0; i < count; i++) {
        if (operations[i].mode == RATIO)
            ratio(&operations[i]);
        else
            scale_and_sum(&operations[i]);
    }
#if defined(__SSE2__)
    _mm_setcsr(control);
#endif
}
