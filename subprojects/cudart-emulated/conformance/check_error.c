#include "conformance.h"
const struct check error_checks[] = {{NULL, NULL}};
