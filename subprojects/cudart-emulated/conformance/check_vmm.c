#include "conformance.h"
const struct check vmm_checks[] = {{NULL, NULL}};
