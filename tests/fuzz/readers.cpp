#include "warptape/tests/fuzz/readers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "warptape/autograd/onnx.h"
#include "warptape/autograd/recording.h"
#include "warptape/core/files/json.h"
#include "warptape/core/safetensors.h"
#include "warptape/data/bpe.h"
#include "warptape/data/cifar.h"
#include "warptape/data/csv.h"
#include "warptape/data/formats/shard_parts.h"
#include "warptape/data/idx.h"
#include "warptape/data/image.h"
#include "warptape/data/lmdb.h"
#include "warptape/data/mesh.h"
#include "warptape/data/npz.h"
#include "warptape/data/parallel_text.h"
#include "warptape/data/tfrecord.h"
#include "warptape/data/tokens.h"
#include "warptape/kernels/jit/cache_file.h"
#include "warptape/nn/gguf.h"
#include "warptape/nn/weights/weight_index.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;

namespace wt_test {
namespace {

// A file in memory, whose content is replaced.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)), path_(str("/proc/self/fd/", fd_)) {}
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }
  void replace(std::string_view content) {
    if (ftruncate(fd_, 0) != 0 ||
        pwrite(fd_, content.data(), content.size(), 0) != i64(content.size()))
      throw std::runtime_error("no file in memory");
  }

 private:
  int fd_;
  std::string path_;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}
bool packed(std::string_view file) {
  return file.starts_with("\x1f\x8b") || file.starts_with(std::string_view("\xfd"
                                                                           "7zXZ\0",
                                                                           6));
}
u64 bytes_of(const Tensor& t) { return u64(t.numel()) * u64(item_size(t.dtype())); }

void keep(std::string_view content) {
  static const char* const folder = std::getenv("WT_FUZZ_SEEDS");
  static int kept = 0;
  if (folder && kept < 1000)
    std::ofstream(str(folder, "/", kept++)).write(content.data(), i64(content.size()));
}

template <class Read>
bool takes(std::string_view content, Read read) {
  thread_local MemoryFile file;
  file.replace(content);
  try {
    read(file.path());
    keep(content);
    return true;
  } catch (const DataError& e) {
    const std::string_view said = e.what();
    require(said.starts_with("DataError: " + file.path() + ": ") &&
                said.find(": at byte ") != said.npos,
            e.what());
    return false;
  } catch (const NotAvailable&) {  // a build without zlib or libspng
    return false;
  }
}

}  // namespace

bool takes_bpe(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::BpeTokenizer t = data::BpeTokenizer::load(path);
    const i64 all = i64(256 + t.merges().size() + t.specials().size());
    require(t.vocab_size() <= all, "every id once");
    try {
      require(t.decode(t.encode("low lowest\xff")) == "low lowest\xff", "a round trip");
    } catch (const UsageError&) {
      require(t.vocab_size() < all, "every byte has a token");
    }
  });
}

bool takes_cifar(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::CifarFile f = data::read_cifar10(path);
    const i64 n = f.labels.numel();
    require(f.images.shape() == Shape{n, 3, 32, 32}, "a label an image");
    require(packed(file) || u64(n) * 3073 == file.size(), "whole records");
    for (const u8 label : f.labels.to_vector<u8>()) require(label < 10, "labels are classes");
  });
}

bool takes_cifar100(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::Cifar100File f = data::read_cifar100(path);
    require(packed(file) || u64(f.fine.numel()) * 3074 == file.size(), "whole records");
    for (const u8 label : f.fine.to_vector<u8>()) require(label < 100, "labels are classes");
    for (const u8 label : f.coarse.to_vector<u8>()) require(label < 20, "labels are superclasses");
  });
}

bool takes_csv(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::CsvTable t = data::read_csv(path);
    require(t.values.ndim() == 2 && t.values.size(1) == i64(t.names.size()), "a name a column");
    require(packed(file) || u64(t.values.numel()) <= file.size(), "a byte a value");
  });
}

bool takes_gguf(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    nn::GgufFile f = nn::GgufFile::open(path, {.max_bytes = 1 << 20});
    u64 bytes = 0;
    for (const nn::GgufEntry& e : f.entries()) {
      (void)f.read(e);
      bytes += e.end - e.begin;
    }
    for (const std::string& key : f.keys()) {
      bytes += key.size();
      if (const std::string* text = f.text(key)) bytes += text->size();
    }
    require(bytes + 24 <= file.size(), "no more than the file has");
  });
}

bool takes_idx(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const Tensor t = data::read_idx(path);
    require(data::idx_shape(path) == t.shape(), "the header's shape");
    require(packed(file) || u64(t.numel() + 4 + 4 * t.ndim()) == file.size(), "the file's length");
  });
}

bool takes_image(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const Tensor t = data::read_image(path);
    const data::ImageInfo info = data::image_info(path);
    require(Shape{info.height, info.width, info.channels} == t.shape(), "the header's size");
    require(t.ndim() == 3 && t.numel() > 0 && t.size(2) <= 4, "pixels of one to four channels");
    // A bit of a PNG may become four bytes, and deflate packs a thousand bytes into one.
    // JPEG and WebP pack one colour into next to nothing.
    const bool png = file.starts_with("\x89PNG"),
               codec = file.starts_with("\xff\xd8") || file.starts_with("RIFF");
    require(codec || u64(t.numel()) <= (png ? 32 * 1032 : 1) * file.size(),
            "no more than the file has");
  });
}

bool takes_lines(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    for (const std::string& line : data::read_lines(path)) {
      require(is_utf8(line) && line.find('\n') == line.npos, "a line of UTF-8");
      require(packed(file) || line.size() <= file.size(), "no more than the file has");
    }
  });
}

bool takes_npy(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    require(bytes_of(data::read_npy(path)) + 10 < file.size(), "no more than the file has");
  });
}

bool takes_npz(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::NpzFile f(path);
    u64 bytes = 0;
    for (const std::string& name : f.names()) bytes += bytes_of(f.read(name));
    require(bytes <= 1032 * file.size(), "no more than deflate packs");
  });
}

namespace {
bool takes_mesh(std::string_view file, data::Mesh (*read)(const std::string&, const ParseLimits&)) {
  return takes(file, [&](const std::string& path) {
    const data::Mesh m = read(path, {});
    require(packed(file) || u64(m.vertices.numel() + m.faces.numel()) <= 3 * file.size(),
            "no more than the file has");
    for (const i64 i : m.faces.to_vector<i64>())
      require(i >= 0 && i < m.vertices.size(0), "faces of vertices");
    require(m.degenerate <= m.faces.size(0), "degenerate ones among them");
    if (m.degenerate < m.faces.size(0)) (void)data::sample_surface(m, 3);
  });
}
}  // namespace

bool takes_obj(std::string_view file) { return takes_mesh(file, data::read_obj); }
bool takes_off(std::string_view file) { return takes_mesh(file, data::read_off); }
bool takes_ply(std::string_view file) { return takes_mesh(file, data::read_ply); }
bool takes_xyz(std::string_view file) { return takes_mesh(file, data::read_xyz); }

bool takes_onnx(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const onnx::Graph g = onnx::load(path, Device::cpu(), {.max_bytes = 1 << 20});
    u64 bytes = 0;
    for (const auto& [name, t] : g.constants()) bytes += bytes_of(t) + name.size();
    // A number that is packed as a varint has a byte, and eight in memory.
    require(bytes <= 8 * file.size(), "no more than the file has");
    require(u64(g.nodes()) <= file.size() && !g.results().empty(), "a byte a node");
  });
}

bool takes_kernel(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const auto code = jit::read_kernel_file(path, "the key");
    if (code)
      require(code->entry.size() + code->code.size() + 47 == file.size(), "the whole of it");
  });
}

bool takes_safetensors(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    SafetensorsFile f = SafetensorsFile::open(path, {.max_bytes = 1 << 20});
    u64 bytes = 0;
    for (const TensorEntry& e : f.entries()) {
      std::vector<char> content(e.bytes());
      f.read(e, content.data());
      bytes += e.bytes();
    }
    require(bytes + 8 < file.size(), "no more than the file has");
    f.verify();
  });
}

bool takes_tokens(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::TokenFile f = data::read_tokens(path, {.vocab_size = 1000});
    const u64 head = f.format == data::TokenFormat::llm_c ? 1024 : 0;
    require(packed(file) || u64(f.tokens.numel()) * 2 + head == file.size(), "the file's length");
    for (const i64 token : f.tokens.to_vector<i64>())
      require(token >= 0 && token < 1000, "tokens of the vocabulary");
  });
}

bool takes_weight_index(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const nn::detail::WeightIndex index = nn::detail::read_weight_index(path);
    u64 bytes = 0;
    for (const auto& [tensor, name] : index.weight_map) {
      bytes += tensor.size() + name.size();
      require(name.find('/') == name.npos && name[0] != '.', "a file of the index's folder");
    }
    require(bytes <= 3 * file.size(), "no more than the file has");
  });
}

// Read by another process, which must find the file under a name.
bool takes_lmdb(std::string_view file) {
  static const TempDir dir;
  const std::string path = dir / "data.mdb";
  spit(path, file);
  try {
    data::LmdbReader reader(path, {.timeout = 5});
    u64 bytes = 0;
    for (std::string key, value; reader.next(key, value); bytes += value.size())
      require(value.size() <= file.size(), "a value is no more than the file has");
    keep(file);
    return true;
  } catch (const DataError& e) {
    const std::string_view said = e.what();
    require(said.starts_with("DataError: " + path + ": at byte "), e.what());
    return false;
  }
}
bool takes_recording(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    record::RecordingFile recording(path);
    u64 bytes = 0;
    i64 last = -1;
    for (record::Step s; recording.next(s); last = s.number) {
      require(s.number > last, "steps rise");
      for (const std::string& text : s.strings) bytes += text.size() + 4;
      for (const record::Entry& e : s.entries) {
        bytes += 20 + 8 * e.shape.size();
        for (const u32 text : {e.op, e.inside, e.module, e.line, e.kernel})
          require(text < s.strings.size(), "a text of the step");
      }
    }
    require(bytes <= file.size(), "no more than the file has");
  });
}

bool takes_shard(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    const data::Shards s(path);
    require(s.bytes() + u64(s.size()) * 12 < file.size(), "no more than the file has");
    for (i64 i = 0; i < s.size(); ++i)
      require(s.get(i).size() == s.fields().size(), "a value a field");
    require(data::check_shards(path).damage.empty(), "what is read is what verify passes");
  });
}

bool takes_shard_record(std::string_view record) {
  static const std::vector<data::ShardField> fields{
      {.name = "a", .dtype = DType::f32, .shape = {-1, 2, -1}},
      {.name = "b", .kind = data::ShardKind::bytes},
      {.name = "s", .kind = data::ShardKind::string},
      {.name = "t", .dtype = DType::boolean, .shape = {3}}};
  return takes(record, [&](const std::string& path) {
    u64 bytes = 0;
    for (const data::ShardValue& v : data::detail::parse_shard_record(fields, record, path, 0))
      bytes += std::holds_alternative<Tensor>(v) ? bytes_of(std::get<Tensor>(v))
                                                 : std::get<std::string>(v).size();
    require(bytes + 32 == record.size(), "all that is there, and no more");
  });
}

bool takes_tfrecord(std::string_view file) {
  return takes(file, [&](const std::string& path) {
    data::TfRecordReader reader(path);
    const data::TfRecords set(path);
    std::string record;
    u64 bytes = 0;
    for (i64 i = 0; reader.next(record); ++i) {
      require(set.bytes(i) == record, "by its number as in order");
      bytes += record.size() + 16;
    }
    require(packed(file) || bytes == file.size(), "all that is there, and no more");
  });
}

bool takes_tf_example(std::string_view record) {
  return takes(record, [&](const std::string& path) {
    const data::TfExample example = data::parse_tf_example(record, path);
    const std::string again = data::tf_example_bytes(example);
    require(data::tf_example_bytes(data::parse_tf_example(again)) == again, "the same again");
  });
}

}  // namespace wt_test
