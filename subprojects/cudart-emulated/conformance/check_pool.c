#include "conformance.h"
const struct check pool_checks[] = {{NULL, NULL}};
