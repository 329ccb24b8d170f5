#include "tolk/codegen/opt/ranges.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/uop/symbolic/affine.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {

UOp find_range(const UOp& ast, int64_t axis) {
  for (const UOp& u : toposort(ast))
    if (u.is(Op::RANGE) && axis_of(u) == axis) return u;
  return {};
}

std::vector<UOp> all_ranges(const UOp& ast) {
  std::vector<UOp> order = toposort(ast), out;
  for (size_t i = order.size(); i-- > 0;) {
    if (!order[i].is(Op::END) && !order[i].is(Op::REDUCE)) continue;
    for (const UOp& r : order[i].src().subspan(1))
      if (std::find(out.begin(), out.end(), r) == out.end()) out.push_back(r);
  }
  return out;
}

UOp replace_range(const UOp& root, const UOp& range, const UOp& expression, std::span<const UOp> instead) {
  Memo<UOp> done;
  std::vector<UOp> src;
  for (const UOp& u : toposort(root)) {
    if (u == range) {
      done.set(u, expression);
      continue;
    }
    bool closes = u.is(Op::END) || u.is(Op::REDUCE), changed = false;
    src.clear();
    for (size_t i = 0; i < u.nsrc(); ++i) {
      if (closes && i > 0 && u.src(i) == range) {
        src.insert(src.end(), instead.begin(), instead.end());
        changed = true;
        continue;
      }
      src.push_back(*done.find(u.src(i)));
      changed |= src.back() != u.src(i);
    }
    if (!changed)
      done.set(u, u);
    else if (closes && src.size() == 1)
      done.set(u, src[0]); // the last loop is gone
    else
      done.set(u, with_sources(u, src));
  }
  return *done.find(root);
}

UOp larger(const UOp& a, const UOp& b) {
  if (a.vmin() >= b.vmax()) return a;
  if (b.vmin() >= a.vmax()) return b;
  return alu(Op::MAX, a, b);
}
UOp smaller(const UOp& a, const UOp& b) {
  if (a.vmax() <= b.vmin()) return a;
  if (b.vmax() <= a.vmin()) return b;
  return alu(Op::MAX, a * int64_t(-1), b * int64_t(-1)) * int64_t(-1);
}

bool reads_what_it_writes(const UOp& ast) {
  std::vector<UOp> read, written;
  for (const UOp& u : toposort(ast)) {
    if (u.is(Op::LOAD)) read.push_back(u.src(0));
    if (u.is(Op::STORE)) written.push_back(u.src(0));
  }
  return std::any_of(read.begin(), read.end(), [&](const UOp& r) {
    return std::find(written.begin(), written.end(), r) != written.end();
  });
}

namespace {

// Rebuilds a graph with two ranges merged. Index nodes are taken as whole sums, so that a*n + b is seen.
class Merger {
public:
  Merger(const UOp& a, const UOp& b, const UOp& merged, bool exact)
      : a_(a), b_(b), merged_(merged), exact_(exact), n_(b.src(0).const_int()) {}

  UOp run(const UOp& root) {
    for (const UOp& u : toposort(root)) {
      if (u.dtype() == DType::Index) continue; // on demand, as part of a sum
      rebuilt(u);
      if (failed_) return {};
    }
    return rebuilt(root);
  }

private:
  bool concerns(const UOp& u) {
    if (!u.has(kHasRange)) return false;
    if (const char* known = concerns_.find(u)) return *known == 1;
    bool yes = u == a_ || u == b_;
    for (const UOp& s : u.src()) yes |= concerns(s);
    concerns_.set(u, yes ? 1 : 2);
    return yes;
  }

  UOp rebuilt(const UOp& u) {
    if (!concerns(u)) return u;
    if (const UOp* found = done_.find(u)) return *found;
    UOp r = u.dtype() == DType::Index ? sum(u) : node(u);
    done_.set(u, r);
    return r;
  }

  UOp node(const UOp& u) {
    std::vector<UOp> src;
    bool closes = u.is(Op::END) || u.is(Op::REDUCE), placed = false;
    for (size_t i = 0; i < u.nsrc(); ++i) {
      const UOp& s = u.src(i);
      if (closes && i > 0 && (s == a_ || s == b_)) {
        if (!placed) src.push_back(merged_);
        placed = true;
      } else {
        src.push_back(closes && i > 0 ? s : rebuilt(s));
      }
    }
    return with_sources(u, src);
  }

  UOp sum(const UOp& u) {
    sym::Affine form = sym::Affine::of(u);
    int64_t ca = form.factor(a_), cb = form.factor(b_);
    bool together = ca == cb * n_;
    if (!together && exact_) failed_ = true;
    UOp total;
    auto add = [&](const UOp& atom, int64_t factor) {
      UOp part = atom * factor;
      total = total ? total + part : part;
    };
    for (const sym::Term& t : form.terms) {
      if (t.v == a_) {
        if (!together) add(tolk::floordiv(merged_, index_const(n_)), ca);
      } else if (t.v == b_) {
        if (together)
          add(merged_, cb);
        else
          add(tolk::floormod(merged_, index_const(n_)), cb);
      } else {
        add(t.v == u ? node(u) : rebuilt(t.v), t.f);
      }
    }
    if (!total) return index_const(form.k);
    return total + form.k;
  }

  UOp a_, b_, merged_;
  bool exact_, failed_ = false;
  int64_t n_;
  Memo<char> concerns_;
  Memo<UOp> done_;
};

} // namespace

UOp merge_ranges(const UOp& ast, const UOp& a, const UOp& b, const UOp& merged, bool exact) {
  return Merger(a, b, merged, exact).run(ast);
}

} // namespace tolk::codegen
