/* entry.h: what an entry is on disk. Private to cache/. */
#ifndef SN_CACHE_ENTRY_H
#define SN_CACHE_ENTRY_H

#include "cache/cache.h"

/* In front of the bytes. Of the machine's own byte order: of another one's the mark and the version differ. */
typedef struct sn_entry_head {
    char mark[8];
    uint32_t version, kind;
    uint64_t size;         /* of the bytes behind it, which are the rest of the file */
    sn_cache_key key, sum; /* of what they were made from; of themselves */
} sn_entry_head;

sn_entry_head sn_entry_head_for(sn_cache_kind kind, sn_cache_key key);
/* What is wrong with a head that should be this one but for size and sum, in a file of so many bytes; NULL: nothing. */
const char *sn_entry_fault(const sn_entry_head *head, const sn_entry_head *wanted, uint64_t file_size);
/* "0123...ef.ptx". False: no name of an entry. */
bool sn_entry_of_name(sn_cache_kind *kind, sn_cache_key *key, const char *name, size_t length);
void sn_cache_warn(sn_cache *c, const char *format, ...) SN_PRINTF(2, 3);

#endif
