// Storage on lists of devices, what HOST is good for, and what is said of operands that are apart.
#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "thrown.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/tensor/random.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

using namespace tolk;
using tolk::test::message_of;

namespace {

using Floats = std::vector<float>;
using Devices = std::vector<std::string>;

Floats ramp(int64_t n) {
  Floats out;
  for (int64_t i = 0; i < n; ++i) out.push_back(float(i));
  return out;
}

// As users write them, and in their one spelling.
struct List {
  std::string text;
  Devices names;
};
const std::vector<List>& lists() {
  static const std::vector<List> all = {{"CPU:0", {"CPU"}},
                                        {"cpu:0,CPU:1", {"CPU", "CPU:1"}},
                                        {"CPU:0,CPU:1,CPU:2", {"CPU", "CPU:1", "CPU:2"}},
                                        {"CPU:0,CPU:1,CPU:2,CPU:3", {"CPU", "CPU:1", "CPU:2", "CPU:3"}},
                                        {"CPU,INTERP", {"CPU", "INTERP"}},
                                        {"INTERP,CPU:1,INTERP:0", {"INTERP", "CPU:1", "INTERP"}}};
  return all;
}

// What each device of the list has in its own storage.
std::vector<Floats> held(const Tensor& t) {
  engine::AnyBuffer any = engine::any_buffer_of(storage_of(t.node()));
  std::vector<BufferRef> buffers;
  if (auto* several = std::get_if<MultiBufferRef>(&any))
    for (size_t p = 0; p < (*several)->positions(); ++p) buffers.push_back((*several)->shard(p));
  else
    buffers.push_back(std::get<BufferRef>(any));
  std::vector<Floats> out;
  for (const BufferRef& buffer : buffers) {
    out.emplace_back(buffer->count());
    buffer->copy_out(std::as_writable_bytes(std::span(out.back())));
  }
  return out;
}

void says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    BOOST_TEST(text.find(part) != std::string::npos, text << "\n  lacks: " << part);
  // A node's text: its operation, dtype and sources.
  for (const char* node : {"f32(", " f32 %", "void(", "_M_range"})
    BOOST_TEST(text.find(node) == std::string::npos, text);
}

} // namespace

BOOST_AUTO_TEST_CASE(data_for_a_list_is_on_each_of_its_devices) {
  for (const List& list : lists()) BOOST_TEST_CONTEXT(list.text) {
      Floats data = ramp(6);
      auto owner = std::make_shared<Floats>(data);
      for (Tensor t : {Tensor::from(data, {2, 3}, list.text),
                       Tensor::from_bytes(data.data(), 24, DType::F32, {2, 3}, list.text),
                       Tensor::from_borrowed(owner->data(), 24, DType::F32, {2, 3}, owner, list.text)}) {
        BOOST_TEST((t.devices() == list.names));
        BOOST_TEST(!t.shard_axis());
        BOOST_TEST((t * 2 + 1).values<float>() == (Floats{1, 3, 5, 7, 9, 11}),
                   boost::test_tools::per_element());
        t = (t + 0).realize();
        for (const Floats& own : held(t)) BOOST_TEST(own == data, boost::test_tools::per_element());
        BOOST_TEST(held(t).size() == list.names.size());
      }
    }
}

BOOST_AUTO_TEST_CASE(empty_storage_on_a_list_is_written_on_each_of_its_devices) {
  for (const List& list : lists()) BOOST_TEST_CONTEXT(list.text) {
      Tensor t = Tensor::empty({2, 3}, DType::F32, list.text);
      BOOST_TEST((t.devices() == list.names));
      BOOST_TEST(!t.shard_axis());
      t.assign(Tensor::from(ramp(6), {2, 3}, list.text) + 1).realize();
      BOOST_TEST(held(t).size() == list.names.size());
      for (const Floats& own : held(t))
        BOOST_TEST(own == (Floats{1, 2, 3, 4, 5, 6}), boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_clone_has_storage_of_its_own_on_the_same_devices_in_the_same_parts) {
  for (const List& list : lists()) {
    auto count = int64_t(list.names.size());
    for (int64_t axis : {-1, 0, 1}) BOOST_TEST_CONTEXT(list.text << ", axis " << axis) {
        Shape shape = {2 * count, 3 * count};
        int64_t n = 6 * count * count;
        Tensor x = Tensor::from(ramp(n), shape, "CPU");
        Tensor t = (axis < 0 ? x.replicate(list.names) : x.shard(list.names, axis)).realize();
        Tensor copy = t.clone().realize();
        BOOST_TEST((copy.devices() == list.names));
        BOOST_TEST((copy.shard_axis() == t.shard_axis()));
        BOOST_TEST((copy.shape() == shape));
        std::vector<Floats> before = held(t);
        BOOST_TEST((held(copy) == before));
        copy.assign(copy * 0 - 1).realize();
        BOOST_TEST((held(t) == before));
        BOOST_TEST(copy.values<float>() == Floats(size_t(n), -1.f), boost::test_tools::per_element());
        // Of a value that was not computed yet, and of a view.
        Tensor later = (t + 1).clone(), view = t.transpose(0, 1).clone();
        BOOST_TEST((later.shard_axis() == t.shard_axis()));
        BOOST_TEST((later.values<float>() == (x + 1).values<float>()));
        BOOST_TEST((view.shard_axis() == t.transpose(0, 1).shard_axis()));
        BOOST_TEST((view.values<float>() == x.transpose(0, 1).values<float>()));
      }
  }
}

BOOST_AUTO_TEST_CASE(uneven_parts_are_refused) {
  Tensor x = Tensor::from(ramp(6), {6}, "CPU");
  says(message_of<Error>([&] { x.shard({"CPU", "CPU:1", "CPU:2", "CPU:3"}, 0); }),
       {"axis 0", "size 6", "4 devices", "pad it"});
  says(message_of<Error>([&] {
         Tensor::from(ramp(6), {6}, "CPU,CPU:1,CPU:2,INTERP").shard({"CPU", "INTERP", "CPU", "CPU"}, 0);
       }),
       {"axis 0", "size 6", "4 devices"});
}

BOOST_AUTO_TEST_CASE(operands_that_are_apart_are_named_with_their_devices_and_shapes) {
  Tensor x = Tensor::from(ramp(6), {2, 3}, "CPU"), there = x.to("CPU:1"),
         row = Tensor::from(ramp(3), {3}, "CPU:1");
  says(message_of<Error>([&] { (x + there).realize(); }),
       {"ADD", "(2,3) on CPU ", "(2,3) on CPU:1", ".to(\"CPU\")"});
  says(message_of<Error>([&] { (x * row).realize(); }),
       {"MUL", "(2,3) on CPU ", "(3) on CPU:1", ".to(\"CPU\")"});
  says(message_of<Error>([&] { x.matmul(there.transpose(0, 1)).realize(); }),
       {"(2,3) on CPU ", "(2,3) on CPU:1"});
  says(message_of<Error>([&] { (there > 2).where(x, x).realize(); }),
       {"WHERE", "(2,3) on CPU:1", "(2,3) on CPU;"});
  says(
      message_of<Error>([&] { x.gather(Tensor::from(std::vector<int64_t>{1}, {1}, "INTERP"), 0).realize(); }),
      {"GATHER", "(2,3) on CPU ", "(1) on INTERP"});
  Tensor stored = (x + 1).realize();
  says(message_of<Error>([&] { (stored + (there + 1).realize()).realize(); }),
       {"(2,3) on CPU ", "(2,3) on CPU:1"});
  // Lists, with the shapes of the whole.
  Devices on = {"CPU", "CPU:1"}, back = {"CPU:1", "CPU"};
  says(message_of<Error>([&] { (x.shard(on, 0) + x).realize(); }),
       {"ADD", "(2,3) on CPU,CPU:1", "(2,3) on CPU;", ".to(\"CPU,CPU:1\")"});
  says(message_of<Error>([&] { (x.shard(on, 0) + x.shard(back, 0)).realize(); }),
       {"on CPU,CPU:1", "on CPU:1,CPU"});
  says(message_of<Error>([&] { (x.shard(on, 0) + x.replicate(back)).realize(); }),
       {"on CPU,CPU:1", "on CPU:1,CPU"});
  says(message_of<Error>([&] { (x.replicate(on) * x.replicate(back)).realize(); }),
       {"on CPU,CPU:1", "on CPU:1,CPU"});
}

BOOST_AUTO_TEST_CASE(host_holds_data_and_computes_nothing) {
  DeviceScope scope("CPU");
  Tensor h = Tensor::from(ramp(6), {2, 3}, "HOST");
  // To be read, copied and cut it need not compute.
  BOOST_TEST(h.values<float>() == ramp(6), boost::test_tools::per_element());
  BOOST_TEST(h.narrow(1, 1, 1).values<float>() == (Floats{1, 4}), boost::test_tools::per_element());
  BOOST_TEST(h.flip({0, 1}).values<float>() == (Floats{5, 4, 3, 2, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(h.transpose(0, 1).narrow(0, 1, 2).to("INTERP").values<float>() == (Floats{1, 4, 2, 5}),
             boost::test_tools::per_element());
  BOOST_TEST((h.narrow(1, 1, 1).to("CPU") + 1).values<float>() == (Floats{2, 5}),
             boost::test_tools::per_element());
  Tensor copy = h.clone();
  BOOST_TEST(copy.device() == "HOST");
  BOOST_TEST(copy.values<float>() == ramp(6), boost::test_tools::per_element());
  Tensor ones = Tensor::ones({3}).to("HOST");
  BOOST_TEST(ones.device() == "HOST");
  BOOST_TEST(ones.values<float>() == Floats(3, 1.f), boost::test_tools::per_element());
  BOOST_TEST((Tensor::from(ramp(6), {2, 3}) * 2).to("HOST").values<float>() == (Floats{0, 2, 4, 6, 8, 10}),
             boost::test_tools::per_element());
  // What it cannot do.
  const char* what_to_do = ".to(default_device())";
  says(message_of<Error>([&] { (h + 1).realize(); }),
       {"ADD", "(2,3)", "HOST", "computes nothing", what_to_do});
  says(message_of<Error>([&] { h.sum().realize(); }), {"REDUCE_AXIS", "HOST", what_to_do});
  says(message_of<Error>([&] { h.flip({0}).contiguous().realize(); }), {"HOST", what_to_do});
  says(message_of<Error>([&] { Tensor::empty({2}, DType::F32, "HOST").assign(Tensor::ones({2})).realize(); }),
       {"HOST", "computes nothing"});
  says(message_of<Error>([&] { (h + h.to("CPU")).realize(); }),
       {"ADD", "(2,3) on HOST", "(2,3) on CPU;", ".to(\"CPU\")"});
  says(message_of<Error>([&] { h.to("CPU").shard({"CPU", "HOST"}, 0); }), {"CPU,HOST", "computes nothing"});
  says(message_of<Error>([&] { h.replicate({"HOST", "CPU"}); }), {"HOST,CPU", "computes nothing"});
  says(message_of<Error>([&] { Tensor::from(ramp(2), {2}, "CPU,HOST"); }), {"CPU,HOST", "computes nothing"});
  says(message_of<Error>([&] { Tensor::empty({2}, DType::F32, "HOST,CPU"); }), {"HOST,CPU"});
  says(message_of<Error>([] { rand({2}, DType::F32, "HOST"); }), {"HOST"});
  DeviceScope as_default("HOST");
  says(message_of<Error>([] { (Tensor::from(ramp(3), {3}) + 1).realize(); }),
       {"DEVICE=HOST", "name a device that computes"});
  says(message_of<Error>([&] { (h + 1).realize(); }), {"DEVICE=HOST", "name a device that computes"});
}
