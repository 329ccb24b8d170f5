#include <sqlite3.h>
#include <unistd.h>

#include "tolk/base/cache_index_internal.h"
#include "tolk/base/log.h"

namespace tolk {
namespace {

// A statement that finalises itself.
class Statement {
public:
  Statement(sqlite3* database, const char* sql) {
    status_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int at, const std::string& text) {
    if (statement_)
      sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  void bind(int at, int64_t number) {
    if (statement_) sqlite3_bind_int64(statement_, at, number);
  }
  bool step() {
    if (statement_) status_ = sqlite3_step(statement_);
    return status_ == SQLITE_ROW;
  }
  void reset() {
    if (statement_) sqlite3_reset(statement_);
  }
  int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const unsigned char* bytes = sqlite3_column_text(statement_, column);
    int size = sqlite3_column_bytes(statement_, column);
    return bytes ? std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size))
                 : std::string();
  }
  int status() const { return status_; }

private:
  sqlite3_stmt* statement_ = nullptr;
  int status_ = SQLITE_OK;
};

bool is_damage(int status) {
  int primary = status & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR ||
         primary == SQLITE_SCHEMA;
}

constexpr int kVersion = 1;

} // namespace

CacheIndex::CacheIndex(std::string path, std::function<std::vector<Entry>()> rescan)
    : path_(std::move(path)), rescan_(std::move(rescan)) {}

CacheIndex::~CacheIndex() { close(); }

void CacheIndex::close() {
  if (database_) sqlite3_close(database_);
  database_ = nullptr;
}

bool CacheIndex::run(const char* sql) {
  return sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

// Opens at first use: a process that only reads blobs never pays for it.
bool CacheIndex::open() {
  if (database_) return true;
  if (failed_) return false;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  int status = sqlite3_open_v2(path_.c_str(), &database_, flags, nullptr);
  if (status == SQLITE_OK) {
    sqlite3_busy_timeout(database_, 2000);
    // A lost transaction costs at most a rescan, so writes need not reach the disk.
    run("PRAGMA journal_mode=WAL");
    run("PRAGMA synchronous=OFF");
    int64_t version = -1;
    {
      Statement query(database_, "PRAGMA user_version");
      if (query.step()) version = query.number(0);
      status = query.status();
    }
    if (version == kVersion) return true;
    if (version == 0) { // new
      if (run("CREATE TABLE IF NOT EXISTS blobs(key TEXT PRIMARY KEY, bytes INTEGER NOT NULL, used INTEGER "
              "NOT NULL)"
              " WITHOUT ROWID;"
              "CREATE INDEX IF NOT EXISTS by_use ON blobs(used);"
              "PRAGMA user_version=1")) {
        add(rescan_());
        return database_ != nullptr;
      }
      status = sqlite3_extended_errcode(database_);
    } else if (version > 0) {
      status = SQLITE_CORRUPT; // of another layout
    }
  }
  close();
  if (is_damage(status) && !repaired_) {
    repair();
    return open();
  }
  failed_ = true;
  log::warning_once("the cache index " + path_ + " cannot be opened (" + sqlite3_errstr(status) +
                    "); the cache is used without a size bound");
  return false;
}

// Throws the file away once per process; open() then rescans.
void CacheIndex::repair() {
  repaired_ = true;
  close();
  for (const char* suffix : {"", "-wal", "-shm"}) ::unlink((path_ + suffix).c_str());
}

template <class Body> void CacheIndex::transaction(const char* sql, Body body) {
  if (!open()) return;
  int status = SQLITE_OK;
  if (!run("BEGIN IMMEDIATE")) {
    status = sqlite3_extended_errcode(database_);
  } else {
    {
      Statement statement(database_, sql);
      body(statement);
      status = statement.status();
    }
    if (!run("COMMIT")) run("ROLLBACK");
  }
  if (is_damage(status) && !repaired_) repair(); // the rescan at the next use sees what this change was about
}

void CacheIndex::add(const std::vector<Entry>& entries) {
  if (entries.empty()) return;
  transaction("INSERT OR REPLACE INTO blobs(key, bytes, used) VALUES(?, ?, ?)", [&](Statement& statement) {
    for (const Entry& entry : entries) {
      statement.bind(1, entry.key);
      statement.bind(2, static_cast<int64_t>(entry.bytes));
      statement.bind(3, entry.used);
      statement.step();
      statement.reset();
    }
  });
}

void CacheIndex::touch(const std::vector<std::string>& keys, int64_t now) {
  if (keys.empty()) return;
  transaction("UPDATE blobs SET used = ? WHERE key = ?", [&](Statement& statement) {
    for (const std::string& key : keys) {
      statement.bind(1, now);
      statement.bind(2, key);
      statement.step();
      statement.reset();
    }
  });
}

void CacheIndex::remove(const std::vector<std::string>& keys) {
  if (keys.empty()) return;
  transaction("DELETE FROM blobs WHERE key = ?", [&](Statement& statement) {
    for (const std::string& key : keys) {
      statement.bind(1, key);
      statement.step();
      statement.reset();
    }
  });
}

uint64_t CacheIndex::total_bytes() {
  if (!open()) return 0;
  Statement query(database_, "SELECT SUM(bytes) FROM blobs");
  return query.step() ? static_cast<uint64_t>(query.number(0)) : 0;
}

std::vector<CacheIndex::Entry> CacheIndex::oldest(uint64_t bytes) {
  std::vector<Entry> out;
  if (!open()) return out;
  Statement query(database_, "SELECT key, bytes, used FROM blobs ORDER BY used");
  uint64_t sum = 0;
  while (sum < bytes && query.step()) {
    out.push_back({query.text(0), static_cast<uint64_t>(query.number(1)), query.number(2)});
    sum += out.back().bytes;
  }
  return out;
}

} // namespace tolk
