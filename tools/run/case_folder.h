// A folder with a model, inputs, and the outputs that are expected of it.
#pragma once

#include <string>
#include <vector>

#include "loaded_model.h"
#include "tolk/io/compare.h"

namespace tolk::run {

struct ExpectedOutput {
  std::string name; // empty: by position
  io::Value value;
  io::Tolerance tolerance;
};

// One set of values. Names may be empty: those inputs follow the model's order.
struct CaseSet {
  std::string name;
  std::vector<io::NamedValue> inputs;
  std::vector<ExpectedOutput> outputs;
};

// Where the values are; they are read a set at a time.
class CaseFolder {
public:
  // Two forms: model.onnx with test_data_set_K/{input,output}_J.pb, as the ONNX project has them, or a
  // case.json that names the model and, for each set, files of inputs (.npy, .npz, .pb) and outputs (.npy,
  // .pb) with rtol and atol. Throws InvalidArgument (no such form), FormatError (a case.json that is not
  // sound).
  explicit CaseFolder(const std::string& folder);
  ~CaseFolder();
  CaseFolder(const CaseFolder&) = delete;
  CaseFolder& operator=(const CaseFolder&) = delete;

  const std::string& model_path() const { return model_; }
  size_t sets() const { return sets_.size(); }
  // Whether an input of a set that equals an output expected of the set before stands for that output: sets
  // of a case.json with a state do.
  bool chained() const { return chained_; }
  // Reads a set; the model's declared types say what the files hold. Throws the errors of the file readers,
  // and InvalidArgument for values that the model has no place for.
  CaseSet read(size_t set, const LoadedModel& model) const;

private:
  struct FileRow {
    std::string name, file; // name empty: by position
    io::Tolerance tolerance;
  };
  struct SetRow {
    std::string name;
    std::vector<FileRow> inputs, outputs;
  };
  void find_onnx_sets();
  void read_json(const std::string& path);

  std::string folder_, model_;
  std::vector<SetRow> sets_;
  bool chained_ = false;
};

} // namespace tolk::run
