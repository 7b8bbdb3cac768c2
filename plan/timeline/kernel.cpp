// The timeline kernel; plan/timeline/kernel.py states its rules and calls it.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel_structs.h" // generated from kernel.py

namespace {

constexpr double INF = std::numeric_limits<double>::infinity();

// What copies leave of the memory's bandwidth at least.
constexpr double LEAST_SHARE = 0.1;

enum Placement { RETAIN, SWAP, RECOMPUTE, COMPRESS };
enum Stream { COMPUTE, D2H, H2D };
enum Kind { FORWARD, BACKWARD, REDO, PACK, UNPACK, OFFLOAD, PREFETCH };
enum Reason { BEGIN, COMPUTED, STAGING, MEMORY, OFFLOADED, LINK, ARRIVED };

// When an event may start: the latest of the times that it waits for. Of several at that time, the
// first one that was awaited is the one that bound it.
struct Start {
    double time;
    Wait bound;
    std::vector<Wait> waits;

    void after(double t, Wait wait) {
        time = t;
        bound = wait;
        waits.assign(1, wait);
    }
    void await(double t, Wait wait) {
        waits.push_back(wait);
        if (t > time) {
            time = t;
            bound = wait;
        }
    }
};

// The copies of one direction, in order.
struct Copies {
    struct Copy {
        double start, end, rate;
    };
    std::vector<Copy> copies;
    double free = 0;
    int32_t last = -1; // the event of the last one
    size_t ended = 0;

    void clear() {
        copies.clear();
        free = 0;
        last = -1;
        ended = 0;
    }
    double add(double start, double seconds, double rate) {
        free = start + seconds;
        copies.push_back({start, free, rate});
        return free;
    }
    // The first copy that has not ended at `now`, which never goes back.
    size_t from(double now) {
        while (ended < copies.size() && copies[ended].end <= now) ended++;
        return ended;
    }
    // What a copy takes of the memory at `t`, and until when that stays so.
    void look(size_t &i, double t, double &rate, double &until) const {
        while (i < copies.size() && copies[i].end <= t) i++;
        if (i == copies.size()) return;
        if (copies[i].start <= t) {
            rate += copies[i].rate;
            until = std::min(until, copies[i].end);
        } else {
            until = std::min(until, copies[i].start);
        }
    }
};

// A managed tensor under a plan.
struct State {
    int option;
    int placement;
    double raw, held;  // bytes, and those of its compressed form on the device
    int need, last;    // the steps of backward in which it is wanted first and last; -1: never
    int turn;          // the step in which its prefetch may be issued
    double off_end, arrival;
    int32_t offload, prefetch; // their events
    bool there;    // pass 1: some step before has it
    bool used_up;  // its last forward use is over
    bool freed;    // its memory has been, after an offload
    double early_bytes() const { return held > 0 ? held : raw; }
};

class Timeline {
  public:
    Timeline(const ProblemArrays &problem, const Options &options)
        : s_(problem), o_(options), n_(problem.stages), tensors_(problem.managed),
          marked_(n_), redo_(2 * n_), passing_(2 * n_), memory_of_(2 * n_ + 1), needed_(2 * n_),
          lasting_(2 * n_) {}

    Outcome run(const int8_t *assignment, double staging, int lookahead, const Record &record) {
        record_ = record;
        events_ = waits_ = changes_ = 0;
        begin(assignment);
        find_needs();
        const double least = find_memory();
        if (least > s_.capacity) return {INF, least, least, 0, 0, 0};
        find_turns(lookahead);
        const double seconds = find_times(staging);
        return {seconds, peak_, least, events_, waits_, changes_};
    }

  private:
    const ProblemArrays &s_;
    const Options &o_;
    const int n_;
    std::vector<State> tensors_;
    std::vector<char> marked_;
    std::vector<std::vector<int>> redo_;    // stages that each step runs again
    std::vector<double> passing_;           // bytes that only recomputation takes, in one step
    std::vector<double> memory_of_;         // of each step, if nothing is late and nothing early
    std::vector<std::vector<int>> needed_;  // tensors that each step wants first
    std::vector<std::vector<int>> lasting_; // tensors that each step wants last
    std::vector<int> order_;                // of prefetches
    std::vector<int> issued_;               // offloads, and how many of them have ended
    size_t landed_;
    Copies out_, in_;
    double base_, memory_, pending_, peak_; // memory of the step, of managed tensors
    Start ready_, copy_;                    // of the next computation, of a copy
    Record record_;
    int64_t events_, waits_, changes_; // so far

    double option(const double *table, int i) const {
        return table[i * o_.options + tensors_[i].option];
    }

    // Returns the event's index.
    int32_t record(int stream, int kind, int tensor, const Start &start, double end, double nbytes) {
        const int32_t waits = static_cast<int32_t>(start.waits.size());
        if (events_ < record_.event_room) {
            record_.events[events_] = {stream,      kind,       tensor, waits,
                                       start.bound, start.time, end,    nbytes};
        }
        if (waits_ + waits <= record_.wait_room) {
            std::copy(start.waits.begin(), start.waits.end(), record_.waits + waits_);
        }
        waits_ += waits;
        return static_cast<int32_t>(events_++);
    }

    void record_memory(double t, double nbytes) {
        if (changes_ < record_.change_room) record_.changes[changes_] = {t, nbytes};
        changes_++;
    }

    void occupy_now(double t, double nbytes) {
        memory_ += nbytes;
        record_memory(t, nbytes);
    }

    void begin(const int8_t *assignment) {
        for (int i = 0; i < s_.managed; i++) {
            State &x = tensors_[i];
            x = {};
            x.option = assignment[i];
            x.placement = o_.placement[i * o_.options + x.option];
            x.raw = s_.tensor_bytes[s_.tensor_of[i]];
            x.held = option(o_.held_bytes, i);
            x.need = x.last = -1;
            x.there = x.placement == RETAIN;
        }
        for (auto &list : redo_) list.clear();
        for (auto &list : needed_) list.clear();
        for (auto &list : lasting_) list.clear();
        std::fill(passing_.begin(), passing_.end(), 0.0);
        std::fill(memory_of_.begin(), memory_of_.end(), 0.0);
        order_.clear();
        issued_.clear();
        landed_ = 0;
        out_.clear();
        in_.clear();
        base_ = memory_ = pending_ = peak_ = 0;
    }

    // A step of backward wants a tensor: whether it must be recomputed for that.
    bool want(int i, int k) {
        State &x = tensors_[i];
        x.last = k;
        if (x.there) return false;
        x.there = true;
        x.need = k;
        needed_[k].push_back(i);
        return x.placement == RECOMPUTE;
    }

    void find_needs() {
        for (int k = n_; k < 2 * n_; k++) {
            const int s = 2 * n_ - 1 - k;
            int top = -1;
            for (int e = s_.saved_start[s]; e < s_.saved_start[s + 1]; e++) {
                const int i = s_.managed_of[s_.saved_list[e]];
                if (i < 0 || !want(i, k)) continue;
                const int u = s_.producer[s_.saved_list[e]];
                marked_[u] = 1;
                top = std::max(top, u);
            }
            // What is recomputed is made of earlier tensors, which may be missing as well.
            for (int u = top; u >= 0; u--) {
                if (!marked_[u]) continue;
                for (int e = s_.input_start[u]; e < s_.input_start[u + 1]; e++) {
                    const int t = s_.input_list[e];
                    if (s_.producer[t] < 0) continue;
                    const int i = s_.managed_of[t];
                    if (i >= 0) {
                        if (want(i, k)) marked_[s_.producer[t]] = 1;
                    } else if (!marked_[s_.producer[t]]) {
                        marked_[s_.producer[t]] = 1;
                        passing_[k] += s_.tensor_bytes[t];
                    }
                }
            }
            double scratch = s_.scratch_bytes[s];
            for (int u = 0; u <= top; u++) {
                if (!marked_[u]) continue;
                marked_[u] = 0;
                redo_[k].push_back(u);
                scratch = std::max(scratch, s_.scratch_bytes[u]);
            }
            passing_[k] += scratch - s_.scratch_bytes[s];
        }
    }

    // From a step to another, both included.
    void occupy(int from, int to, double nbytes) {
        memory_of_[from] += nbytes;
        memory_of_[to + 1] -= nbytes;
    }

    double find_memory() {
        for (int i = 0; i < s_.managed; i++) {
            const State &x = tensors_[i];
            const int t = s_.tensor_of[i];
            const int made = s_.producer[t], used = s_.last_forward[t];
            lasting_[x.last].push_back(i);
            if (x.placement == RETAIN) {
                occupy(made, x.last, x.raw);
                continue;
            }
            occupy(made, used, x.raw);
            occupy(x.need, x.last, x.raw);
            if (x.held > 0 && x.placement == COMPRESS) {
                occupy(used, x.need, x.held);
            } else if (x.held > 0) {
                occupy(made, made, x.held);
                occupy(x.need, x.need, x.held);
            }
        }
        double least = 0, total = 0;
        for (int k = 0; k < 2 * n_; k++) {
            total += memory_of_[k];
            memory_of_[k] = total + s_.fixed_bytes[k] + passing_[k];
            least = std::max(least, memory_of_[k]);
        }
        return least;
    }

    void find_turns(int lookahead) {
        int earliest = n_;
        for (int need = n_; need < 2 * n_; need++) {
            // Backward wants late tensors first.
            std::sort(needed_[need].begin(), needed_[need].end(), std::greater<int>());
            for (int i : needed_[need]) {
                if (tensors_[i].placement != SWAP) continue;
                order_.push_back(i);
                const int first = lookahead < 0 ? earliest : std::max(earliest, need - lookahead);
                const double nbytes = tensors_[i].early_bytes();
                int k = need;
                while (k > first && memory_of_[k - 1] + nbytes <= s_.capacity) {
                    memory_of_[--k] += nbytes;
                }
                tensors_[i].turn = earliest = k;
            }
        }
    }

    // Offloads end in the order in which they were issued.
    void land(double t) {
        for (; landed_ < issued_.size() && tensors_[issued_[landed_]].off_end <= t; landed_++) {
            State &x = tensors_[issued_[landed_]];
            // What has still to be read is freed after that.
            if (x.freed || (x.held == 0 && !x.used_up)) continue;
            x.freed = true;
            occupy_now(x.off_end, -x.early_bytes());
            if (x.used_up) pending_ -= x.early_bytes();
        }
    }

    bool wait_for_offload(Reason reason) {
        if (landed_ == issued_.size()) return false;
        const State &x = tensors_[issued_[landed_]];
        ready_.await(x.off_end, {reason, x.offload});
        land(ready_.time);
        return true;
    }

    void reserve(double t, double nbytes) {
        occupy_now(t, nbytes);
        peak_ = std::max(peak_, base_ + memory_);
    }

    // When a layer that starts now ends, beside the copies of both directions.
    double work(double now, double flop_s, double memory_s) {
        if (memory_s <= flop_s * LEAST_SHARE) return now + flop_s;
        size_t i = out_.from(now), j = in_.from(now);
        double t = now, left = memory_s;
        while (true) {
            double rate = 0, until = INF;
            out_.look(i, t, rate, until);
            in_.look(j, t, rate, until);
            const double share = std::max(1 - rate / s_.dram_bytes_per_s, LEAST_SHARE);
            if (left <= (until - t) * share) return std::max(now + flop_s, t + left / share);
            left -= (until - t) * share;
            t = until;
        }
    }

    // The computation goes on when it is ready, and after that is ready at once.
    void compute(int kind, int t, double end, double nbytes) {
        const int32_t event = record(COMPUTE, kind, t, ready_, end, nbytes);
        ready_.after(end, {COMPUTED, event});
    }

    void run_stage(int s, int kind) {
        double now = ready_.time;
        const int first = s_.layer_start[s], past = s_.layer_start[s + 1];
        for (int layer = first; layer < past; layer++) {
            const int back = first + past - 1 - layer;
            now = kind == BACKWARD ? work(now, s_.backward_flop_s[back], s_.backward_memory_s[back])
                                   : work(now, s_.forward_flop_s[layer], s_.forward_memory_s[layer]);
        }
        const int t = s_.output[s];
        compute(kind, t, now, s_.tensor_bytes[t]);
    }

    void run_codec(int i, int kind) {
        compute(kind, s_.tensor_of[i], ready_.time + option(o_.codec_s, i), tensors_[i].raw);
    }

    double made_bytes(int k) const {
        double nbytes = 0;
        if (k < n_) {
            const int made = s_.managed_of[s_.output[k]];
            if (made >= 0) {
                const State &x = tensors_[made];
                nbytes += x.raw + (x.placement == SWAP ? x.held : 0);
            }
            for (int e = s_.ending_start[k]; e < s_.ending_start[k + 1]; e++) {
                const State &x = tensors_[s_.ending_list[e]];
                if (x.placement == COMPRESS) nbytes += x.held;
            }
        } else {
            for (int i : needed_[k]) {
                // Memory of what comes as it is has been reserved by its prefetch.
                if (tensors_[i].placement != SWAP || tensors_[i].held > 0) nbytes += tensors_[i].raw;
            }
        }
        return nbytes;
    }

    // A copy waits for the computation that issues it, whose own waits it shares, then for the data,
    // then for the link.
    void wait_for_link(const Copies &own, const Copies &other) {
        if (own.last >= 0) copy_.await(own.free, {LINK, own.last});
        if (!s_.duplex && other.last >= 0) copy_.await(other.free, {LINK, other.last});
    }

    void prefetch(int i) {
        State &x = tensors_[i];
        copy_ = ready_;
        copy_.await(x.off_end, {OFFLOADED, x.offload});
        wait_for_link(in_, out_);
        const double end = in_.add(copy_.time, option(o_.in_s, i), option(o_.in_dram, i));
        x.arrival = end + s_.in_latency_s;
        x.prefetch = in_.last =
            record(H2D, PREFETCH, s_.tensor_of[i], copy_, end, option(o_.link_bytes, i));
    }

    void offload(int i) {
        State &x = tensors_[i];
        copy_ = ready_;
        wait_for_link(out_, in_);
        const double end = out_.add(copy_.time, option(o_.out_s, i), option(o_.out_dram, i));
        x.off_end = end + s_.out_latency_s;
        issued_.push_back(i);
        x.offload = out_.last =
            record(D2H, OFFLOAD, s_.tensor_of[i], copy_, end, option(o_.link_bytes, i));
    }

    double find_times(double staging) {
        size_t next = 0;
        ready_.after(0, {BEGIN, -1});
        for (int k = 0; k < 2 * n_; k++) {
            const double base = s_.fixed_bytes[k] + passing_[k];
            land(ready_.time);
            const double made = made_bytes(k);
            while (true) {
                const bool full = base + memory_ + made > s_.capacity;
                if (!full && pending_ <= staging) break;
                if (!wait_for_offload(full ? MEMORY : STAGING)) return INF;
            }
            record_memory(ready_.time, base - base_);
            base_ = base;
            reserve(ready_.time, made);

            for (; next < order_.size() && tensors_[order_[next]].turn <= k; next++) {
                const int i = order_[next];
                const double nbytes = tensors_[i].early_bytes();
                const bool now_or_never = tensors_[i].need == k;
                while (base + memory_ + nbytes > s_.capacity && now_or_never) {
                    if (!wait_for_offload(MEMORY)) return INF;
                }
                if (base + memory_ + nbytes > s_.capacity) break;
                reserve(ready_.time, nbytes);
                prefetch(i);
            }
            if (k < n_) forward(k);
            else backward(k);
        }
        return ready_.time;
    }

    void forward(int s) {
        run_stage(s, FORWARD);
        const int made = s_.managed_of[s_.output[s]];
        if (made >= 0 && tensors_[made].placement == SWAP) {
            if (tensors_[made].held > 0) run_codec(made, PACK);
            offload(made);
        }
        for (int e = s_.ending_start[s]; e < s_.ending_start[s + 1]; e++) {
            const int i = s_.ending_list[e];
            if (tensors_[i].placement == COMPRESS) run_codec(i, PACK);
        }
        const double now = ready_.time;
        land(now);
        for (int e = s_.ending_start[s]; e < s_.ending_start[s + 1]; e++) {
            State &x = tensors_[s_.ending_list[e]];
            if (x.placement == RETAIN) continue;
            x.used_up = true;
            const bool out = x.placement != SWAP || x.off_end <= now;
            if (x.held > 0 || out) occupy_now(now, -x.raw);
            if (out) x.freed = true;
            else pending_ += x.early_bytes();
        }
    }

    void backward(int k) {
        for (int i : needed_[k]) {
            const State &x = tensors_[i];
            if (x.placement == SWAP) ready_.await(x.arrival, {ARRIVED, x.prefetch});
        }
        for (int i : needed_[k]) {
            if (tensors_[i].held > 0) run_codec(i, UNPACK);
        }
        for (int u : redo_[k]) run_stage(u, REDO);
        run_stage(2 * n_ - 1 - k, BACKWARD);
        const double now = ready_.time;
        for (int i : needed_[k]) occupy_now(now, -tensors_[i].held);
        for (int i : lasting_[k]) occupy_now(now, -tensors_[i].raw);
    }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void timeline_run(
    const ProblemArrays *problem, const Options *options, const int8_t *assignment, double staging,
    int32_t lookahead, const Record *record, Outcome *outcome) {
    *outcome = Timeline(*problem, *options).run(assignment, staging, lookahead, *record);
}

extern "C" __attribute__((visibility("default"))) void timeline_run_all(
    const ProblemArrays *problem, const Options *options, const int8_t *assignments, int64_t count,
    double staging, int32_t lookahead, double *seconds) {
    Timeline timeline(*problem, *options);
    for (int64_t p = 0; p < count; p++) {
        const int8_t *assignment = assignments + p * problem->managed;
        seconds[p] = timeline.run(assignment, staging, lookahead, {}).seconds;
    }
}
