#include "conformance.h"
const struct check capture_checks[] = {{NULL, NULL}};
