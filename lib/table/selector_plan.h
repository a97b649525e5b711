// Which indexes a table has, from the selectors that were asked for.
#pragma once

#include "base/status.h"
#include "layout/control.h"
#include "layout/directory.h"

namespace gear {

// Checks the selectors of a request and fills the index records of the header, all but offset and bytes. `specs` has
// request.selector_count entries. Errors: EINVAL, ENAME, EDUPLICATE.
Status plan_selectors(const layout::TableCreateRequest& request, const layout::SelectorSpec* specs,
                      layout::TableHeader* header);

// Whether two records of the header describe one index: the same selector with the same parameters, over the same items.
// Such records share their memory.
bool same_index(const layout::TableHeader& header, uint32_t a, uint32_t b);

}  // namespace gear
