#include "conformance.h"
const struct check sync_checks[] = {{NULL, NULL}};
