// Routing of scalar votes (H heads, N capsules of one dimension each), forward and backward, one
// token at a time, so that a token's arrays stay in cache. Formulas and names are those of
// algorithms.py. Arrays of a token are row-major (H, N), with rows h and columns n.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

// If a capsule's C, summed over the heads, is below this, its shares are computed in logarithms.
constexpr float kTinyMass = 1e-28f;
// With more iterations than this, some tokens amplify the rounding of float32 sums beyond the usual
// tolerance, so sums are kept in double.
constexpr int kMostRounded = 3;
constexpr float kHalfLog2PiE = 1.41893853320467f;  // (1 + log 2 pi) / 2

inline float bits_to_float(int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline int32_t float_to_bits(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// exp for x <= 0, to about 2 units in the last place; 0 below -87. The compiler does not vectorise
// std::exp. exp(x) = 2^k exp(r) with |r| <= log(2) / 2, and a Taylor sum for exp(r).
inline float exp_negative(float x) {
  const float c = x > -87.0f ? x : -87.0f;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float k = (c * 1.44269504f + magic) - magic;
  const float r = (c - k * 0.693145752f) - k * 1.42860677e-6f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float y = p * bits_to_float((static_cast<int32_t>(k) + 127) << 23);
  const float kept = x < -87.0f ? 0.0f : y;
  return x != x ? x : kept;
}

// log for positive normal x: x = 2^k m with m in [sqrt(1/2), sqrt(2)), and the series of
// 2 artanh((m - 1) / (m + 1)).
inline float log_positive(float x) {
  const int32_t bits = float_to_bits(x);
  const int32_t k = (bits - 0x3f3504f3) >> 23;
  const float m = bits_to_float(bits - k * (1 << 23));
  const float s = (m - 1.0f) / (m + 1.0f);
  const float z = s * s;
  float p = 1.0f / 9.0f;
  p = p * z + 1.0f / 7.0f;
  p = p * z + 1.0f / 5.0f;
  p = p * z + 1.0f / 3.0f;
  const float fraction = 2.0f * s + 2.0f * s * z * p;
  return x != x ? x : fraction + static_cast<float>(k) * 0.69314718f;
}

inline float sigmoid(float x) {
  const float e = exp_negative(-std::fabs(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

inline float log_sigmoid(float x) {
  return std::min(x, 0.0f) - log_positive(1.0f + exp_negative(-std::fabs(x)));
}

// Computes C, the softmax of the logits over each row; mass, the column sums of C; and share,
// C / mass. On entry `share` holds the logits. kExact: see kMostRounded.
template <bool kExact>
void softmax_and_shares(int H, int N, float* __restrict c, float* __restrict share,
                        float* __restrict mass) {
  std::vector<float> log_sum(H);
  std::fill(mass, mass + N, 0.0f);
  for (int h = 0; h < H; ++h) {
    const float* __restrict x = share + static_cast<size_t>(h) * N;
    float* __restrict row = c + static_cast<size_t>(h) * N;
    float top = x[0];
    std::conditional_t<kExact, double, float> sum = 0;
#pragma omp simd reduction(max : top)
    for (int n = 0; n < N; ++n) top = x[n] > top ? x[n] : top;
#pragma omp simd reduction(+ : sum)
    for (int n = 0; n < N; ++n) {
      const float e = exp_negative(x[n] - top);
      row[n] = e;
      sum += e;
    }
    log_sum[h] = top + static_cast<float>(std::log(sum));
    const float scale = static_cast<float>(1 / sum);
#pragma omp simd
    for (int n = 0; n < N; ++n) {
      row[n] *= scale;
      mass[n] += row[n];
    }
  }
  if constexpr (kExact) {
    for (int n = 0; n < N; ++n) {
      double all = 0.0;
      for (int h = 0; h < H; ++h) all += c[static_cast<size_t>(h) * N + n];
      mass[n] = static_cast<float>(all);
    }
  }
  float least = mass[0];
#pragma omp simd reduction(min : least)
  for (int n = 0; n < N; ++n) least = mass[n] < least ? mass[n] : least;
  if (least >= kTinyMass) {
    for (int h = 0; h < H; ++h) {
      const float* __restrict row = c + static_cast<size_t>(h) * N;
      float* __restrict out = share + static_cast<size_t>(h) * N;
#pragma omp simd
      for (int n = 0; n < N; ++n) out[n] = row[n] / mass[n];
    }
    return;
  }
  // Some capsule is so unlikely that its C underflow; its shares are still well defined.
  for (int n = 0; n < N; ++n) {
    float top = -INFINITY, sum = 0.0f;
    for (int h = 0; h < H; ++h) {
      top = std::max(top, share[static_cast<size_t>(h) * N + n] - log_sum[h]);
    }
    for (int h = 0; h < H; ++h) {
      float& x = share[static_cast<size_t>(h) * N + n];
      x = std::exp(x - log_sum[h] - top);
      sum += x;
    }
    for (int h = 0; h < H; ++h) share[static_cast<size_t>(h) * N + n] /= sum;
    mass[n] = sum * std::exp(top);
  }
}

// Results of one iteration that the backward pass needs.
struct Step {
  std::vector<float> c, share;                         // (H, N)
  std::vector<float> mass, mean, square, rate, active;  // (N)
  Step(int H, int N)
      : c(static_cast<size_t>(H) * N),
        share(static_cast<size_t>(H) * N),
        mass(N), mean(N), square(N), rate(N), active(N) {}
};

// The mean of the votes, weighted by share.
template <bool kExact>
void weighted_mean(int H, int N, const float* __restrict v, const float* __restrict share,
                   float* __restrict mean) {
  if constexpr (kExact) {
    for (int n = 0; n < N; ++n) {
      double sum = 0.0;
      for (size_t i = n; i < static_cast<size_t>(H) * N; i += N) {
        sum += static_cast<double>(share[i]) * v[i];
      }
      mean[n] = static_cast<float>(sum);
    }
    return;
  }
  std::fill(mean, mean + N, 0.0f);
  for (int h = 0; h < H; ++h, v += N, share += N) {
#pragma omp simd
    for (int n = 0; n < N; ++n) mean[n] += share[n] * v[n];
  }
}

// Constants of an iteration, as locals: the compiler does not vectorise loops that reload members.
struct Costs {
  float activation, input, floor, lambda;
};

struct Em {
  int H, N, iterations;
  bool activation;
  float activation_cost, input_cost, floor;
  const float* temperatures;

  // Runs the iterations on the votes of a token. Iteration i writes its results to steps[i], or to
  // steps[0] if there is only one step.
  template <bool kExact>
  void run(const float* __restrict v, std::vector<Step>& steps, float* __restrict bias,
           float* __restrict out) const {
    const size_t last = steps.size() - 1;
    std::fill(steps[0].share.begin(), steps[0].share.end(), 1.0f / H);
    std::fill(steps[0].mass.begin(), steps[0].mass.end(), static_cast<float>(H) / N);
    for (int t = 0; t < iterations; ++t) {
      Step& s = steps[std::min<size_t>(t, last)];
      float* __restrict mean = s.mean.data();
      float* __restrict square = s.square.data();
      float* __restrict rate = s.rate.data();
      float* __restrict active = s.active.data();
      const float* __restrict mass = s.mass.data();
      weighted_mean<kExact>(H, N, v, s.share.data(), mean);
      std::fill(square, square + N, 0.0f);
      for (int h = 0; h < H; ++h) {
        const float* __restrict row = v + static_cast<size_t>(h) * N;
        const float* __restrict share = s.share.data() + static_cast<size_t>(h) * N;
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          const float d = row[n] - mean[n];
          square[n] += share[n] * d * d;
        }
      }
      const Costs k{activation_cost, input_cost, floor, temperatures[t]};
      if (activation) {
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          const float variance = square[n] < k.floor ? k.floor : square[n];
          const float log_deviation = 0.5f * log_positive(variance);
          const float entropy = log_deviation + kHalfLog2PiE;
          const float logit = k.lambda * (k.activation - (k.input + entropy) * mass[n]);
          rate[n] = 0.5f / variance;
          active[n] = sigmoid(logit);
          bias[n] = log_sigmoid(logit) - log_deviation;
        }
      } else {
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          const float variance = square[n] < k.floor ? k.floor : square[n];
          rate[n] = 0.5f / variance;
          bias[n] = -0.5f * log_positive(variance);
          active[n] = 1.0f;
        }
      }
      if (t == iterations - 1) {
        if (out != nullptr) {
#pragma omp simd
          for (int n = 0; n < N; ++n) out[n] = active[n] * mean[n];
        }
        return;
      }
      Step& next = steps[std::min<size_t>(t + 1, last)];
      for (int h = 0; h < H; ++h) {
        const float* __restrict row = v + static_cast<size_t>(h) * N;
        float* __restrict logits = next.share.data() + static_cast<size_t>(h) * N;
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          const float d = row[n] - mean[n];
          logits[n] = bias[n] - d * d * rate[n];
        }
      }
      softmax_and_shares<kExact>(H, N, next.c.data(), next.share.data(), next.mass.data());
    }
  }

  // Gradient of the votes of a token, from the steps that run() wrote and the gradient of its
  // result. Work space: `grad_c` is (H, N), `sums` 7 N floats, `row_sums` H.
  void back(const float* __restrict v, const std::vector<Step>& steps,
            const float* __restrict grad, float* __restrict grad_v, float* __restrict grad_c,
            float* __restrict sums, float* __restrict row_sums) const {
    float* __restrict grad_mean = sums;
    float* __restrict grad_bias = sums + N;
    float* __restrict grad_rate = sums + 2 * N;
    float* __restrict grad_square = sums + 3 * N;
    float* __restrict grad_mass = sums + 4 * N;
    float* __restrict grad_share_mean = sums + 5 * N;
    // sum_h share * (v - mean): 0 up to rounding, which matters where heads nearly agree.
    float* __restrict left = sums + 6 * N;
    std::fill(grad_v, grad_v + static_cast<size_t>(H) * N, 0.0f);
    for (int t = iterations - 1; t >= 0; --t) {
      const Step& s = steps[t];
      const float* __restrict mean = s.mean.data();
      const float* __restrict square = s.square.data();
      const float* __restrict rate = s.rate.data();
      const float* __restrict active = s.active.data();
      const float* __restrict mass = s.mass.data();
      const bool is_last = t == iterations - 1;
      std::fill(sums, sums + 3 * N, 0.0f);
      std::fill(left, left + N, 0.0f);
      for (int h = 0; h < H; ++h) {
        const size_t row = static_cast<size_t>(h) * N;
        const float* __restrict share = s.share.data() + row;
#pragma omp simd
        for (int n = 0; n < N; ++n) left[n] += share[n] * (v[row + n] - mean[n]);
      }
      if (is_last) {
        std::fill(grad_c, grad_c + static_cast<size_t>(H) * N, 0.0f);
      } else {
        // From log C (in grad_c) back through the softmax over n to the logits, and to the
        // bias, the rate and the mean that they were made of.
        const float* __restrict c = steps[t + 1].c.data();
        for (int h = 0; h < H; ++h) {
          const size_t row = static_cast<size_t>(h) * N;
          const float total = row_sums[h];
#pragma omp simd
          for (int n = 0; n < N; ++n) {
            const float g = grad_c[row + n] - c[row + n] * total;
            const float d = v[row + n] - mean[n];
            grad_c[row + n] = g;
            grad_bias[n] += g;
            grad_mean[n] += g * d;
            grad_rate[n] -= g * d * d;
          }
        }
      }
      // Without activation, active is 1, which makes grad_logit 0.
      const Costs k{activation_cost, input_cost, floor, temperatures[t]};
      const float now = is_last ? 1.0f : 0.0f, later = 1.0f - now;
      const float scale = activation ? k.lambda : 0.0f;
#pragma omp simd
      for (int n = 0; n < N; ++n) {
        const float grad_logit =
            (now * grad[n] * mean[n] * active[n] + later * grad_bias[n]) * (1.0f - active[n]);
        grad_mean[n] = now * grad[n] * active[n] + 2.0f * rate[n] * grad_mean[n];
        // rate = 1 / (2 variance), and log_deviation = log(variance) / 2
        const float entropy = kHalfLog2PiE - 0.5f * log_positive(2.0f * rate[n]);
        const float grad_log_deviation = -grad_bias[n] - scale * mass[n] * grad_logit;
        grad_mass[n] = -scale * (k.input + entropy) * grad_logit;
        const float grad_variance = rate[n] * (grad_log_deviation - 2.0f * rate[n] * grad_rate[n]);
        grad_square[n] = square[n] >= k.floor ? grad_variance : 0.0f;
        grad_mean[n] -= 2.0f * grad_square[n] * left[n];
        grad_share_mean[n] = 0.0f;
      }
      for (int h = 0; h < H; ++h) {
        const size_t row = static_cast<size_t>(h) * N;
        const float* __restrict share = s.share.data() + row;
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          const float d = v[row + n] - mean[n];
          grad_v[row + n] += share[n] * (2.0f * grad_square[n] * d + grad_mean[n]) -
                             2.0f * rate[n] * d * grad_c[row + n];
          // Up to a constant over h, which the softmax over h removes.
          const float grad_share = d * (grad_square[n] * d + grad_mean[n]);
          grad_c[row + n] = grad_share;
          grad_share_mean[n] += share[n] * grad_share;
        }
      }
      if (t == 0) return;
      for (int h = 0; h < H; ++h) {
        const size_t row = static_cast<size_t>(h) * N;
        const float* __restrict share = s.share.data() + row;
        const float* __restrict c = s.c.data() + row;
        float total = 0.0f;
#pragma omp simd reduction(+ : total)
        for (int n = 0; n < N; ++n) {
          const float g = share[n] * (grad_c[row + n] - grad_share_mean[n]) + c[n] * grad_mass[n];
          grad_c[row + n] = g;
          total += g;
        }
        row_sums[h] = total;
      }
    }
  }
};

struct Simple {
  int H, N, iterations;
  bool over_capsules;

  // As Em::run; `logits` is B, (H, N). The squashed capsule is in step.active.
  template <bool kExact>
  void run(const float* __restrict v, std::vector<Step>& steps, float* __restrict logits,
           float* __restrict out) const {
    const size_t last = steps.size() - 1;
    const size_t size = static_cast<size_t>(H) * N;
    std::fill(steps[0].share.begin(), steps[0].share.end(), 1.0f / H);
    std::fill(logits, logits + size, 0.0f);
    for (int t = 0; t < iterations; ++t) {
      Step& s = steps[std::min<size_t>(t, last)];
      const float* __restrict mean = s.mean.data();
      float* __restrict capsule = s.active.data();
      weighted_mean<kExact>(H, N, v, s.share.data(), s.mean.data());
#pragma omp simd
      for (int n = 0; n < N; ++n) {
        capsule[n] = mean[n] * std::fabs(mean[n]) / (1.0f + mean[n] * mean[n]);
      }
      if (t == iterations - 1) {
        if (out != nullptr) std::copy(capsule, capsule + N, out);
        return;
      }
      Step& next = steps[std::min<size_t>(t + 1, last)];
      float* __restrict share = next.share.data();
      for (int h = 0; h < H; ++h) {
        const size_t row = static_cast<size_t>(h) * N;
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          logits[row + n] += capsule[n] * v[row + n];
          share[row + n] = logits[row + n];
        }
      }
      if (over_capsules) {
        softmax_and_shares<kExact>(H, N, next.c.data(), share, next.mass.data());
      } else {
        softmax_over_heads(share, next.mass.data(), next.square.data());
      }
    }
  }

  void softmax_over_heads(float* __restrict x, float* __restrict sum,
                          float* __restrict top) const {
    std::copy(x, x + N, top);
    std::fill(sum, sum + N, 0.0f);
    for (int h = 1; h < H; ++h) {
#pragma omp simd
      for (int n = 0; n < N; ++n) {
        const float value = x[static_cast<size_t>(h) * N + n];
        top[n] = value > top[n] ? value : top[n];
      }
    }
    for (int h = 0; h < H; ++h) {
      float* __restrict row = x + static_cast<size_t>(h) * N;
#pragma omp simd
      for (int n = 0; n < N; ++n) {
        row[n] = exp_negative(row[n] - top[n]);
        sum[n] += row[n];
      }
    }
    for (int h = 0; h < H; ++h) {
      float* __restrict row = x + static_cast<size_t>(h) * N;
#pragma omp simd
      for (int n = 0; n < N; ++n) row[n] /= sum[n];
    }
  }

  // As Em::back, with `grad_logits` (H, N), the gradient of B, in place of `row_sums`.
  void back(const float* __restrict v, const std::vector<Step>& steps,
            const float* __restrict grad, float* __restrict grad_v, float* __restrict grad_c,
            float* __restrict sums, float* __restrict grad_logits) const {
    float* __restrict grad_capsule = sums;
    float* __restrict grad_mean = sums + N;
    float* __restrict grad_share_mean = sums + 2 * N;
    const size_t size = static_cast<size_t>(H) * N;
    std::fill(grad_v, grad_v + size, 0.0f);
    std::fill(grad_logits, grad_logits + size, 0.0f);
    std::copy(grad, grad + N, grad_capsule);
    for (int t = iterations - 1; t >= 0; --t) {
      const Step& s = steps[t];
      const float* __restrict mean = s.mean.data();
#pragma omp simd
      for (int n = 0; n < N; ++n) {
        const float below = 1.0f + mean[n] * mean[n];
        grad_mean[n] = grad_capsule[n] * 2.0f * (std::fabs(mean[n]) / below) / below;
        grad_share_mean[n] = 0.0f;
      }
      for (int h = 0; h < H; ++h) {
        const size_t row = static_cast<size_t>(h) * N;
        const float* __restrict share = s.share.data() + row;
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          grad_v[row + n] += share[n] * grad_mean[n];
          const float grad_share = (v[row + n] - mean[n]) * grad_mean[n];
          grad_c[row + n] = grad_share;
          grad_share_mean[n] += share[n] * grad_share;
        }
      }
      if (t == 0) return;
      const float* __restrict capsule = steps[t - 1].active.data();
      std::fill(grad_capsule, grad_capsule + N, 0.0f);
      for (int h = 0; h < H; ++h) {
        const size_t row = static_cast<size_t>(h) * N;
        const float* __restrict share = s.share.data() + row;
        const float* __restrict c = s.c.data() + row;
        float total = 0.0f;
#pragma omp simd reduction(+ : total)
        for (int n = 0; n < N; ++n) {
          const float g = share[n] * (grad_c[row + n] - grad_share_mean[n]);
          grad_c[row + n] = g;
          total += g;
        }
        if (!over_capsules) total = 0.0f;
#pragma omp simd
        for (int n = 0; n < N; ++n) {
          const float g =
              grad_logits[row + n] + grad_c[row + n] - (total != 0.0f ? c[n] * total : 0.0f);
          grad_logits[row + n] = g;
          grad_v[row + n] += g * capsule[n];
          grad_capsule[n] += g * v[row + n];
        }
      }
    }
  }
};

// Forward with grad == nullptr (result: the capsules), otherwise backward (result: the gradient
// of the votes).
template <bool kExact, class Routing>
void route_with(const Routing& routing, const float* votes, const float* grad, float* result,
           int64_t tokens, int threads) {
  const int H = routing.H, N = routing.N;
  const size_t size = static_cast<size_t>(H) * N;
#pragma omp parallel num_threads(threads)
  {
    std::vector<Step> steps(grad == nullptr ? 1 : routing.iterations, Step(H, N));
    std::vector<float> scratch(size), logits(size), sums(static_cast<size_t>(7) * N);
#pragma omp for schedule(static)
    for (int64_t k = 0; k < tokens; ++k) {
      const float* v = votes + k * size;
      if (grad == nullptr) {
        routing.template run<kExact>(v, steps, logits.data(), result + k * N);
      } else {
        routing.template run<kExact>(v, steps, logits.data(), nullptr);
        routing.back(v, steps, grad + k * N, result + k * size, scratch.data(), sums.data(),
                     logits.data());
      }
    }
  }
}

template <class Routing>
void route(const Routing& routing, const float* votes, const float* grad, float* result,
           int64_t tokens, int threads) {
  if (routing.iterations > kMostRounded) {
    route_with<true>(routing, votes, grad, result, tokens, threads);
  } else {
    route_with<false>(routing, votes, grad, result, tokens, threads);
  }
}

}  // namespace

extern "C" {

void route_em(const float* votes, const float* grad, float* result, int64_t tokens, int heads,
              int capsules, int iterations, int activation, float activation_cost,
              float input_cost, float variance_floor, const float* temperatures, int threads) {
  const Em em{heads, capsules, iterations, activation != 0, activation_cost, input_cost,
              variance_floor, temperatures};
  route(em, votes, grad, result, tokens, threads);
}

void route_simple(const float* votes, const float* grad, float* result, int64_t tokens, int heads,
                  int capsules, int iterations, int over_capsules, int threads) {
  const Simple simple{heads, capsules, iterations, over_capsules != 0};
  route(simple, votes, grad, result, tokens, threads);
}

}  // extern "C"
