#include "conformance.h"
const struct check process_checks[] = {{NULL, NULL}};
