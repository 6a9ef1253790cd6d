/* What is kept of this thread and of this process. */
#include "agent.h"

_Thread_local struct nf_thread nf_self __attribute__((tls_model("initial-exec")));
struct nf_process nf_process = {.min_object = SIZE_MAX};
