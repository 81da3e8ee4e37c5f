// The two runtime calls whose structures depend on the CUDA version: compiled with the program, against its headers.
#include <cuda_runtime_api.h>
#include <cstring>
extern "C" int kg_function_info(const void *host, unsigned *values);
extern "C" int kg_device_attribute(int id);

extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
  if (device) return cudaErrorInvalidDevice;
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "kgen executor");
  p->major = kg_device_attribute(75);
  p->minor = kg_device_attribute(76);
  p->multiProcessorCount = kg_device_attribute(16);
  p->sharedMemPerBlock = kg_device_attribute(8);
  p->sharedMemPerBlockOptin = kg_device_attribute(97);
  p->sharedMemPerMultiprocessor = kg_device_attribute(81);
  p->maxThreadsPerBlock = kg_device_attribute(1);
  p->maxThreadsPerMultiProcessor = kg_device_attribute(39);
  p->regsPerBlock = kg_device_attribute(12);
  p->warpSize = kg_device_attribute(10);
  for (int i = 0; i < 3; i++) {
    p->maxThreadsDim[i] = kg_device_attribute(2 + i);
    p->maxGridSize[i] = kg_device_attribute(5 + i);
  }
  return cudaSuccess;
}

extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *host) {
  unsigned values[5];
  int e = kg_function_info(host, values);
  if (e) return static_cast<cudaError_t>(e);
  std::memset(a, 0, sizeof *a);
  a->sharedSizeBytes = values[0];
  a->localSizeBytes = values[1];
  a->maxThreadsPerBlock = static_cast<int>(values[2]);
  a->ptxVersion = a->binaryVersion = static_cast<int>(values[3]);
  a->maxDynamicSharedSizeBytes = static_cast<int>(values[4]);
  a->numRegs = 64;
  return cudaSuccess;
}
