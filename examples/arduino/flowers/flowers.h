/*
 * flowers: MultiPrototypeSVC (prototypes, linear kernel) with 4 features and 3 classes, weights
 * of type int4; written by polymargin 0.2.0.
 *
 * Size: 68 bytes of tables and labels, 8 bytes of arrays on the stack. No library functions.
 *
 * Use, in one .c file:
 *
 *     #include "flowers.h"
 *     float x[4] = { ... };
 *     int c = flowers_predict(x);        0 to 2, or -1
 *     const char *label = flowers_label(c);
 *     float scores[3];
 *     int same = flowers_scores(x, scores);
 *
 * The scaler of the model is contained: x are raw features. scores has 3 entries; the highest
 * wins, the first among equals. Where a feature is NaN or infinite, or scores overflow, the
 * class is -1.
 *
 * Sums do not overflow: the integer weights of a prototype have absolute values of sum 18 at
 * most, a quantised feature is at most 32767, and 18 * 32767 = 589806 <= 2147483647, the largest
 * int32_t.
 *
 * Training: status converged, relative duality gap 6.1e-06.
 *
 * Features in order: sl, sw, pl, pw.
 */

#ifndef POLYMARGIN_EXPORT_flowers
#define POLYMARGIN_EXPORT_flowers

#include <stdint.h>

#define FLOWERS_N_FEATURES 4
#define FLOWERS_N_CLASSES 3
#define FLOWERS_BYTES 68 /* of all tables, labels counted */

/* One row per prototype. Two numbers per byte, 8 added to each. */
static const uint8_t flowers_weights[4][2] = {
    { 201, 33 },
    { 213, 76 },
    { 122, 87 },
    { 87, 254 }
};

/* One per prototype. */
static const int16_t flowers_intercepts[4] = {
    32767, -4405, 16996, -32767
};

/* What one unit of the weights, the intercepts and the projection is worth. */
static const float flowers_steps[2] = {
    2.13894680e-01f, 1.13135677e-04f
};

/* The prototypes of class c are first[c] to first[c + 1] - 1. */
static const uint8_t flowers_first[4] = {
    0, 1, 3, 4
};

/* Neither NaN nor infinite. */
static inline int flowers_is_number(float v)
{
    return v >= -3.40282347e+38f && v <= 3.40282347e+38f;
}

/* Kept feature j as the weights expect it. */
static inline float flowers_feature(float v, int j)
{
    (void)j;
    return v;
}

/* The product of q with row r of weights. */
static inline int64_t flowers_prototype(const int16_t *q, int64_t weight, int r)
{
    int32_t sum = 0;
    int j;
    for (j = 0; j < 2; ++j) {
        const int pair = flowers_weights[r][j];
        sum += (int32_t)((pair & 15) - 8) * q[2 * j];
        sum += (int32_t)((pair >> 4) - 8) * q[2 * j + 1];
    }
    return (int64_t)sum * 4096 + flowers_intercepts[r] * weight;
}

/* Writes 3 scores and gives the class of the highest, the first among equals, or -1. */
static inline int flowers_scores(const float *x, float *scores)
{
    int c, j, r;
    int best = 0, k;
    int16_t q[4];
    float largest = 0.0f, unit = 0.0f;
    int64_t weight;
    for (j = 0; j < 4; ++j) {
        float v = x[j];
        if (!flowers_is_number(v)) return -1;
        v = flowers_feature(v, j);
        v = v < 0.0f ? -v : v;
        largest = v > largest ? v : largest;
    }
    unit = largest / 32767.0f;
    for (j = 0; j < 4; ++j) {
        float v;
        /* a division so small that it means nothing is left out */
        v = unit > 1.0e-37f ? flowers_feature(x[j], j) / unit : 0.0f;
        v += v < 0.0f ? -0.5f : 0.5f;
        q[j] = (int16_t)v;
    }
    unit *= flowers_steps[0];
    /* an example of almost nothing: only the intercepts count */
    if (unit < flowers_steps[1] * 1.0e-9f) unit = flowers_steps[1] * 1.0e-9f;
    weight = (int64_t)(flowers_steps[1] / unit * 4096.0f + 0.5f);
    unit /= 4096.0f;
    for (c = 0; c < 3; ++c) {
        int64_t top;
        r = flowers_first[c];
        top = flowers_prototype(q, weight, r);
        for (++r; r < flowers_first[c + 1]; ++r) {
            const int64_t s = flowers_prototype(q, weight, r);
            top = s > top ? s : top;
        }
        scores[c] = (float)top * unit;
    }
    for (k = 1; k < 3; ++k) {
        if (scores[k] > scores[best]) best = k;
    }
    return flowers_is_number(scores[best]) ? best : -1;
}

/* The class of x: 0 to 2, or -1 if x has no class. */
static inline int flowers_predict(const float *x)
{
    float scores[3];
    return flowers_scores(x, scores);
}

/* Labels in the order of the scores. */
static const char *const flowers_labels[3] = {
    "setosa",
    "versicolor",
    "virginica"
};

/* The label of class c; "" if c is out of range. */
static inline const char *flowers_label(int c)
{
    return c >= 0 && c < 3 ? flowers_labels[c] : "";
}

#endif
