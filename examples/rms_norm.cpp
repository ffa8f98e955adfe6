/* rms_norm.cpp: Sinter from C++11: handles that clean up behind themselves, failures as exceptions. The graph normalises rows
 * and multiplies them with a matrix; the result is compared with a loop on the host.
 *
 * No exception may pass through Sinter; here none does, since nothing is thrown in a callback.
 */
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include <sinter/sinter.h>

namespace {

const int rows = 4, width = 64, results = 8;
const double eps = 1e-5;

template <typename T, void (*destroy)(T *)> struct destroyer {
    void operator()(T *x) const { destroy(x); }
};
template <typename T, void (*destroy)(T *)> using handle = std::unique_ptr<T, destroyer<T, destroy>>;

using context = handle<sn_context, sn_context_destroy>;
using graph = handle<sn_graph, sn_graph_destroy>;
using program = handle<sn_program, sn_program_destroy>;
using tensor = handle<sn_tensor, sn_tensor_destroy>;

/* Members go in the reverse order, so that the context is the last. */
class runner {
    context ctx;
    program p;

    void check(sn_status status) const {
        if (status) throw std::runtime_error(sn_error(ctx.get()));
    }

  public:
    runner() {
        sn_context *c;
        sn_graph *made;
        sn_program *compiled;
        if (sn_context_create(&c, nullptr)) throw std::bad_alloc();
        ctx.reset(c);
        check(sn_graph_create(&made, ctx.get(), "rms_norm"));
        graph g(made);
        sn_node x = sn_input(made, "x", SN_F32, SN_LIST(rows, width));
        sn_node weight = sn_input(made, "weight", SN_F32, SN_LIST(width));
        sn_node w = sn_input(made, "w", SN_F32, SN_LIST(width, results));
        sn_output(made, "y", sn_matmul(made, sn_rms_norm(made, x, weight, eps), w));
        check(sn_compile(&compiled, made, nullptr));
        p.reset(compiled);
    }

    std::vector<float> run(const std::vector<std::vector<float>> &inputs) const {
        std::vector<tensor> owners;
        std::vector<sn_tensor *> in;
        sn_tensor *t;
        for (const std::vector<float> &values : inputs) {
            check(sn_tensor_for_input(&t, p.get(), static_cast<unsigned>(in.size())));
            owners.emplace_back(t);
            in.push_back(t);
            check(sn_tensor_write(t, values.data(), values.size() * sizeof(float)));
        }
        check(sn_tensor_for_output(&t, p.get(), 0));
        owners.emplace_back(t);
        check(sn_run(p.get(), in.data(), &t, nullptr));
        std::vector<float> y(rows * results);
        check(sn_tensor_read(y.data(), t, y.size() * sizeof(float)));
        return y;
    }
};

std::vector<float> numbers(int n, int modulus) {
    std::vector<float> v;
    for (int k = 0; k < n; k++) v.push_back(static_cast<float>((k * 7) % modulus - modulus / 2) / 4);
    return v;
}

double reference(const std::vector<float> &x, const std::vector<float> &weight, const std::vector<float> &w, int row,
                 int column) {
    double squares = 0, sum = 0;
    for (int k = 0; k < width; k++) squares += std::pow(x[row * width + k], 2);
    double factor = 1 / std::sqrt(squares / width + eps);
    for (int k = 0; k < width; k++) sum += x[row * width + k] * factor * weight[k] * w[k * results + column];
    return sum;
}

} // namespace

int main() try {
    std::vector<float> x = numbers(rows * width, 11), weight = numbers(width, 5), w = numbers(width * results, 13);
    std::vector<float> y = runner().run({x, weight, w});
    double worst = 0;
    for (int k = 0; k < rows * results; k++)
        worst = std::fmax(worst, std::fabs(y[k] - reference(x, weight, w, k / results, k % results)));
    std::printf("y[0, 0] is %.4f; largest error below 1e-4: %s\n", y[0], worst < 1e-4 ? "yes" : "no");
    return worst < 1e-4 ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
