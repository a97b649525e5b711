// Replays inputs through a fuzzer's entry, where the fuzzer itself is not built: replay CORPUS_FOLDER_OR_FILE...
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // Told before: a fault of the next line names its input.
  printf("%s, %zu bytes\n", path.filename().c_str(), bytes.size());
  fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  int replayed = 0;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::exists(arguments[i])) {
      fprintf(stderr, "%s: is not there\n", arguments[i]);
      return 1;
    }
    if (!std::filesystem::is_directory(arguments[i])) {
      replay(arguments[i]);
      ++replayed;
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      replay(entry.path());
      ++replayed;
    }
  }
  printf("%d inputs\n", replayed);
  return replayed > 0 ? 0 : 1;
}
