// Bindings and the resolution of arguments: rows, MD-17.
#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

namespace {

Device& ambient() { return device("NULL"); }
UOp ints(int64_t slot, int64_t count, const std::string& where = "NULL") {
  return buffer_node(slot, DType::I32, count, where);
}
BufferRef single(const AnyBuffer& b) { return std::get<BufferRef>(b); }
MultiBufferRef multi(const AnyBuffer& b) { return std::get<MultiBufferRef>(b); }
MultiBufferRef on_devices(const std::vector<std::string>& names) {
  std::vector<BufferRef> shards;
  for (const std::string& name : names) shards.push_back(make_buffer(device(name), DType::I32, 4));
  return MultiBuffer::of_bufs(shards);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_buffer_is_single_or_multi, *boost::unit_test::label("R-20")) {
  AnyBuffer one = make_buffer(ambient(), DType::I32, 4);
  std::vector<std::string> names = {"NULL:1", "NULL:2"};
  AnyBuffer two = on_devices(names);
  auto positions = [](const AnyBuffer& b) {
    struct Visitor {
      size_t operator()(const BufferRef&) { return 1; }
      size_t operator()(const MultiBufferRef& m) { return m->positions(); }
    };
    return std::visit(Visitor{}, b);
  };
  BOOST_TEST(positions(one) == 1U);
  BOOST_TEST(positions(two) == 2U);
  BOOST_TEST((!is_multi(one) && is_multi(two) && !has_value(AnyBuffer{})));
}

BOOST_AUTO_TEST_CASE(multi_buffers_have_shards_of_one_size) {
  BOOST_TEST(contains(message_of<InvalidArgument>([] { MultiBuffer::of_bufs({}); }), "at least one device"));
  BufferRef a = make_buffer(ambient(), DType::I32, 4);
  for (const BufferRef& b : {make_buffer(ambient(), DType::I32, 5), make_buffer(ambient(), DType::F32, 4)})
    BOOST_TEST(contains(message_of<InvalidArgument>([&] { MultiBuffer::of_bufs({a, b}); }),
                        "multi buffer requires matching sizes and dtypes"));
  // A device may occur twice: two buffers.
  std::vector<std::string> twice = {"NULL", "NULL"};
  MultiBufferRef m = on_devices(twice);
  BOOST_TEST(m->shard(0)->id() != m->shard(1)->id());
  MultiBufferRef view = m->view(DType::U8, 4, 8);
  BOOST_TEST(view->shard(1)->base_id() == m->shard(1)->id());
  BOOST_TEST(view->shard(1)->offset() == 8U);
}

BOOST_AUTO_TEST_CASE(a_binding_makes_storage_once_for_each_node, *boost::unit_test::label("R-21")) {
  BufferBinding binding(ambient());
  UOp node = ints(fresh_internal_slot(), 7);
  BufferRef first = single(binding.buffer_of_node(node));
  BOOST_TEST(first->id() == single(binding.buffer_of_node(node))->id());
  BOOST_TEST((first->count() == 7 && first->dtype() == DType::I32 && !first->is_allocated()));
  // Internal storage is the binding's own; user storage is the node's, so two bindings agree.
  BufferBinding other(ambient());
  BOOST_TEST(single(other.buffer_of_node(node))->id() != first->id());
  UOp user = ints(fresh_user_slot(), 7);
  BOOST_TEST(resolve(binding, {}, user)->id() == resolve(other, {}, user)->id());
  BOOST_TEST(resolve(binding, {}, user)->id() == buffer_of(user)->id());
}

BOOST_AUTO_TEST_CASE(a_seed_precedes_what_was_there, *boost::unit_test::label("R-22")) {
  BufferBinding binding(ambient());
  BufferRef seeded = make_buffer(ambient(), DType::I32, 7);
  for (UOp node : {ints(fresh_internal_slot(), 7), ints(fresh_user_slot(), 7)}) {
    BufferRef lazy = resolve(binding, {}, node);
    binding.seed(node, seeded);
    BOOST_TEST(lazy->id() != seeded->id());
    BOOST_TEST(resolve(binding, {}, node)->id() == seeded->id());
    BOOST_TEST(resolve(binding, {}, node)->id() == seeded->id());
  }
  // Seeding precedes the structure of any op.
  UOp slice = slice_node(ints(fresh_user_slot(), 7), DType::I32, 4, 2);
  BOOST_TEST(resolve(binding, {}, slice)->offset() == 4U);
  binding.seed(slice, seeded);
  BOOST_TEST(resolve(binding, {}, slice)->id() == seeded->id());
}

BOOST_AUTO_TEST_CASE(a_binding_seeds_finds_removes_and_clears, *boost::unit_test::label("R-23")) {
  BufferBinding binding(ambient());
  std::vector<std::string> names = {"NULL:1", "NULL:2"};
  UOp a = ints(fresh_internal_slot(), 4), b = ints(fresh_internal_slot(), 4, "NULL:1,NULL:2"),
      c = ints(fresh_internal_slot(), 4);
  BufferRef buffer = make_buffer(ambient(), DType::I32, 4);
  MultiBufferRef shards = on_devices(names);
  uint64_t epoch = binding.epoch();
  binding.seed(a, buffer);
  BOOST_TEST(binding.epoch() > epoch);
  epoch = binding.epoch();
  binding.seed(b, shards);
  BOOST_TEST(binding.epoch() > epoch);
  BOOST_TEST((binding.mem(a) && binding.mem(b) && !binding.mem(c)));
  BOOST_TEST(binding.find_buffer(c) == nullptr);
  BOOST_TEST(single(*binding.find_buffer(a))->id() == buffer->id());
  epoch = binding.epoch();
  binding.buffer_of_node(c);
  BOOST_TEST(binding.epoch() == epoch); // making storage changes nothing that was resolved
  BOOST_TEST(binding.mem(c));
  std::vector<UOp> seen;
  binding.iter([&](const UOp& node, const AnyBuffer&) { seen.push_back(node); });
  BOOST_TEST((seen == std::vector<UOp>{a, b, c}));
  binding.remove(a);
  BOOST_TEST(binding.epoch() > epoch);
  BOOST_TEST((!binding.mem(a) && binding.mem(b) && binding.mem(c)));
  BOOST_TEST(multi(*binding.find_buffer(b)) == shards);
  binding.clear();
  BOOST_TEST((!binding.mem(b) && !binding.mem(c)));
}

BOOST_AUTO_TEST_CASE(storage_is_where_the_node_says, *boost::unit_test::label("R-24")) {
  BufferBinding binding(device("NULL:1"));
  BOOST_TEST(single(binding.buffer_of_node(ints(fresh_internal_slot(), 4, "NULL:2")))->device().name() ==
             "NULL:2");
  BOOST_TEST(single(binding.buffer_of_node(ints(fresh_internal_slot(), 4, "NULL:1")))->device().name() ==
             "NULL:1");
  BOOST_TEST(single(binding.buffer_of_node(ints(fresh_internal_slot(), 4, "")))->device().name() == "NULL:1");
  BOOST_TEST(single(binding.buffer_of_node(ints(fresh_user_slot(), 4, "")))->device().name() == "NULL:1");
  for (int64_t slot : {fresh_internal_slot(), fresh_user_slot()}) {
    MultiBufferRef m = multi(binding.buffer_of_node(ints(slot, 4, "NULL:3,NULL:2,NULL:3")));
    BOOST_REQUIRE(m->positions() == 3U);
    BOOST_TEST((m->shard(0)->device().name() == "NULL:3" && m->shard(1)->device().name() == "NULL:2" &&
                m->shard(2)->device().name() == "NULL:3"));
    BOOST_TEST(m->count() == 4U);
  }
}

BOOST_AUTO_TEST_CASE(an_execution_context_has_its_fields, *boost::unit_test::label("R-25")) {
  UOp node = ints(fresh_user_slot(), 4);
  ExecContext context{.var_vals = {{"n", 3}}, .input_uops = {node}, .jit = true, .wait = true};
  BOOST_TEST((context.var_vals.at("n") == 3 && context.input_uops[0] == node && context.jit && context.wait));
}

BOOST_AUTO_TEST_CASE(the_default_execution_context_is_empty, *boost::unit_test::label("R-26")) {
  ExecContext context = exec_context();
  BOOST_TEST((context.var_vals.empty() && context.input_uops.empty() && context.input_overlay.empty()));
  BOOST_TEST((!context.jit && !context.wait && context.update_stats));
}

BOOST_AUTO_TEST_CASE(a_param_is_the_runs_input, *boost::unit_test::label("R-27")) {
  BufferBinding binding(ambient());
  UOp node = ints(fresh_internal_slot(), 4), param = param_node(0, DType::I32, 4, "NULL");
  ExecContext context{.input_uops = {node}};
  BOOST_TEST(resolve(binding, context, param)->id() == resolve(binding, {}, node)->id());
  // A PARAM whose input is a PARAM, whose input is in the binding.
  ExecContext nested{.input_uops = {param_node(1, DType::I32, 4, "NULL"), node}};
  BOOST_TEST(resolve(binding, nested, param)->id() == resolve(binding, {}, node)->id());
  // An overlay precedes the node, and the binding learns nothing of it.
  BufferRef mine = make_buffer(ambient(), DType::I32, 4);
  context.input_overlay = {AnyBuffer(mine)};
  BOOST_TEST(resolve(binding, context, param)->id() == mine->id());
  context.input_overlay = {AnyBuffer{}};
  BOOST_TEST(resolve(binding, context, param)->id() == resolve(binding, {}, node)->id());
  BOOST_TEST((!binding.mem(param)));
}

BOOST_AUTO_TEST_CASE(a_slice_is_an_offset_view, *boost::unit_test::label("R-28")) {
  BufferBinding binding(ambient());
  // Element 1 of int32[4] on: offsets of this project's SLICE are bytes already.
  UOp base = ints(fresh_internal_slot(), 4), slice = slice_node(base, DType::I32, 4, 2);
  BufferRef view = resolve(binding, {}, slice);
  BOOST_TEST((view->count() == 2 && view->offset() == 4 && view->dtype() == DType::I32));
  BOOST_TEST(view->base_id() == resolve(binding, {}, base)->id());
  // Another dtype than the source's: the offset is the source's element 1, the count the slice's own.
  BufferRef bytes = resolve(binding, {}, slice_node(base, DType::U8, 4, 3));
  BOOST_TEST((bytes->count() == 3 && bytes->offset() == 4 && bytes->bytes() == 3));
  // Views of views add up; a view that reaches no PARAM is made once.
  BOOST_TEST(resolve(binding, {}, slice_node(slice, DType::I32, 4, 1))->offset() == 8U);
  BOOST_TEST(resolve(binding, {}, slice).get() == view.get());
  // A constant offset as a source is an offset; what is below a PARAM follows the input.
  UOp more = make(Op::SLICE, DType::I32, {base, index_const(8)}, Arg({4, 1}));
  BOOST_TEST(resolve(binding, {}, more)->offset() == 12U);
  UOp of_param = slice_node(param_node(0, DType::I32, 4, "NULL"), DType::I32, 4, 1);
  UOp x = ints(fresh_user_slot(), 4), y = ints(fresh_user_slot(), 4);
  BOOST_TEST(resolve(binding, {.input_uops = {x}}, of_param)->base_id() == buffer_of(x)->id());
  BOOST_TEST(resolve(binding, {.input_uops = {y}}, of_param)->base_id() == buffer_of(y)->id());
}

BOOST_AUTO_TEST_CASE(a_slice_of_a_multi_device_buffer_is_one_per_device, *boost::unit_test::label("R-29")) {
  BufferBinding binding(ambient());
  UOp base = ints(fresh_internal_slot(), 4, "NULL:1,NULL:2");
  MultiBufferRef whole = multi(binding.buffer_of_node(base));
  MultiBufferRef view = multi(resolve_buffer(binding, {}, slice_node(base, DType::I32, 8, 2)));
  BOOST_REQUIRE(view->positions() == 2U);
  for (size_t j = 0; j < 2; ++j)
    BOOST_TEST((view->shard(j)->offset() == 8 && view->shard(j)->base_id() == whole->shard(j)->id()));
}

BOOST_AUTO_TEST_CASE(a_buffer_is_resolved_by_the_binding, *boost::unit_test::label("R-30")) {
  BufferBinding binding(ambient());
  UOp node = ints(fresh_internal_slot(), 4);
  BufferRef first = resolve(binding, {}, node);
  BOOST_TEST(first->id() == resolve(binding, {}, node)->id());
  // The state of a buffer after effects, and another shape of it, are the buffer.
  UOp effect = store_to(node, node);
  BOOST_TEST(resolve(binding, {}, after(node, std::span(&effect, 1)))->id() == first->id());
  BOOST_TEST(resolve(binding, {}, reshape(node, {2, 2}))->id() == first->id());
}

BOOST_AUTO_TEST_CASE(mselect_is_one_shard, *boost::unit_test::label("R-31")) {
  BufferBinding binding(ambient());
  UOp a = ints(fresh_internal_slot(), 4, "NULL:1"), b = ints(fresh_internal_slot(), 4, "NULL:2");
  std::vector<UOp> both = {a, b};
  BOOST_TEST(resolve(binding, {}, mselect(mstack(both), 1))->id() == resolve(binding, {}, b)->id());
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { resolve(binding, {}, mselect(mstack(both), 2)); }),
                      "MSELECT index 2 out of range 2"));
}

BOOST_AUTO_TEST_CASE(mstack_joins_in_order, *boost::unit_test::label("R-32")) {
  BufferBinding binding(ambient());
  UOp a = ints(fresh_internal_slot(), 4, "NULL:1"), b = ints(fresh_internal_slot(), 4, "NULL:2");
  std::vector<UOp> both = {b, a};
  MultiBufferRef m = multi(resolve_buffer(binding, {}, mstack(both)));
  BOOST_TEST((m->shard(0)->id() == resolve(binding, {}, b)->id() &&
              m->shard(1)->id() == resolve(binding, {}, a)->id()));
  std::vector<UOp> nested = {ints(fresh_internal_slot(), 4, "NULL:1,NULL:2")};
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { resolve_buffer(binding, {}, mstack(nested)); }),
                      "MSTACK of a multi-device buffer"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_resolved, *boost::unit_test::label("R-33")) {
  BufferBinding binding(ambient());
  UOp base = ints(fresh_internal_slot(), 4);
  auto refused = [&](const UOp& node, const ExecContext& context = {}) {
    return message_of<InvalidArgument>([&] { resolve_buffer(binding, context, node); });
  };
  BOOST_TEST(contains(refused(param_node(0, DType::I32, 4)), "unbound PARAM"));
  BOOST_TEST(contains(refused(param_node(1, DType::I32, 4), {.input_uops = {base}}), "unbound PARAM"));
  BOOST_TEST(contains(refused(param_node(-1, DType::I32, 4), {.input_uops = {base}}), "unbound PARAM"));
  UOp symbolic = make(Op::SLICE, DType::I32, {base, variable("i", 0, 3)}, Arg({0, 1}));
  BOOST_TEST(contains(refused(symbolic), "symbolic SLICE offset"));
  BOOST_TEST(contains(refused(alu(Op::ADD, base, base)), "cannot resolve ADD"));
  BOOST_TEST(contains(refused(variable("i", 0, 3)), "cannot resolve VAR"));
}

BOOST_AUTO_TEST_CASE(storage_on_two_devices_is_no_single_buffer, *boost::unit_test::label("R-34")) {
  UOp node = ints(fresh_user_slot(), 4, "NULL:1,NULL:2");
  set_buffer(node, make_storage(node, &ambient()));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { buffer_of(node); }),
                      "multi-device buffer in a single-device context"));
}

BOOST_AUTO_TEST_CASE(mselect_of_a_single_buffer, *boost::unit_test::label("MD-17")) {
  BufferBinding binding(ambient());
  BOOST_TEST(contains(
      message_of<InvalidArgument>([&] { resolve(binding, {}, mselect(ints(fresh_internal_slot(), 4), 0)); }),
      "MSELECT of a single-device buffer"));
}
